"""A forgotten request is one that workers take for a new one: they are to drop all that they know of it first.

Workers know requests by name, and a scheduler that sends one again as new says nothing of an earlier one. So its name
is put among those that ended, in the step that schedules it: V1 keeps the state column of a request that ended in a
step without tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def forgetting(scheduler: Any) -> Callable[[str], None]:
    """A function that has workers forget a request when it is scheduled next."""
    schedule = scheduler.schedule
    names: set[str] = set()

    def schedule_forgotten(*arguments: Any, **named: Any) -> Any:
        scheduler.finished_req_ids |= names
        output = schedule(*arguments, **named)
        names.difference_update(new.req_id for new in output.scheduled_new_reqs)
        return output

    scheduler.schedule = schedule_forgotten
    return names.add
