"""A harness failure is a case that the harness itself could not judge: a mistake of ours, told, kept, and no finding.

One such case must not cost a campaign the thousands around it. So the case is saved with the traceback beside it, the
campaign goes on with a new worker, and its exit status is 4 whatever else was found.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.campaign.saving import NotSaved
from harness.repro.store import write_whole

LIMIT = 5
"""A harness that fails this often has a fault that more cases do not tell more about."""


class HarnessFailures:
    """Those of one campaign, saved under `folder`, with the case where it can be drawn again. `noun`: what a case of
    the campaign is called."""

    def __init__(self, folder: Path, seed: int, noun: str = "case") -> None:
        self._folder, self._seed, self._noun = folder, seed, noun
        self.count = 0

    @property
    def too_many(self) -> bool:
        return self.count >= LIMIT

    def record(self, index: int, traceback: str, draw: Callable[[], bytes]) -> str:
        """Save what there is, `draw` giving the case as JSON; a line that tells it. Raises NotSaved."""
        self.count += 1
        name = f"seed-{self._seed}-{self._noun}-{index}"
        trace = self._folder / f"{name}.txt"
        kept = [trace]
        try:
            write_whole(trace, traceback.encode())
            try:
                text = draw()
            except Exception:  # drawing may be what failed: then the traceback says so, and there is no case
                text = b""
            if text:
                kept.append(self._folder / f"{name}.json")
                write_whole(kept[-1], text)
        except OSError as error:
            raise NotSaved(f"the harness failed in {self._noun} {index} of seed {self._seed}, which", error) from error
        last = traceback.strip().splitlines()[-1:]
        where = " and ".join(map(str, kept))
        return f"the harness itself failed in {self._noun} {index}: {''.join(last)}; see {where}"
