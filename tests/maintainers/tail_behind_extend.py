"""tail-behind-extend: a padded last prompt token runs as a decode wherever it stands
(docs/reports/tail-behind-extend.md).

In vLLM's tests: `_compute_common_metadata` of a Mamba2 builder on the two rows below.
"""

from __future__ import annotations

from typing import Any

from tests.maintainers.objects import Scheduled, V1Worker, config

ISSUE = "tail-behind-extend"


def check(worker: V1Worker) -> None:
    """Both requests have 8 tokens from the prefix cache. Of the first two prompt tokens are left, of the second one,
    which the scheduler pads with a draft."""
    worker.execute(
        Scheduled("chunk", 8, 2, new=tuple(range(10))),
        Scheduled("tail", 8, 2, drafts=1, new=tuple(range(9))),
    )
    metadata = worker.mamba2_metadata()
    found = (metadata.num_decodes, metadata.num_prefills)
    assert found == (1, 1), (
        f"decodes and prefills are {found}: the state of the tail will be that after its placeholder"
    )


def put_tails_first(worker: V1Worker) -> None:
    """Let padded tails stand before short chunks in the batch."""
    batch, reorder = worker.batch, worker.runner._may_reorder_batch

    def reorder_with_tails_first(output: Any) -> None:
        reorder(output)
        drafts = output.scheduled_spec_decode_tokens
        tails = [
            name for name in batch.req_ids if len(drafts.get(name, ())) + 1 == output.num_scheduled_tokens[name] > 1
        ]
        for place, name in enumerate(tails):
            if batch.req_id_to_index[name] != place:
                batch.swap_states(batch.req_id_to_index[name], place)

    worker.runner.__dict__["_may_reorder_batch"] = reorder_with_tails_first


def run(suggested: bool) -> None:
    """The suggested rule: the V1 runner sorts a padded tail to the decodes, as the V2 runner does with rows that have
    drafts."""
    worker = V1Worker(config(spec_method="mtp", num_spec=1))
    if suggested:
        put_tails_first(worker)
    check(worker)
