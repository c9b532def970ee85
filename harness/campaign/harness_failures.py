"""A harness failure is a case that the harness itself could not judge: a mistake of ours, reported, kept, no finding.

One such case must not cost a campaign the thousands around it. So the case is saved with its traceback, the campaign
continues with a new worker, and its exit status is 4 whatever else was found.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.files import NotSaved, write_whole

LIMIT = 5
"""A harness that fails this often has a fault that more cases say no more about."""


class HarnessFailures:
    """Those of one campaign, saved under `folder`, with the case where it can be drawn again.

    `options` are those with which `harness replay` runs the case as the campaign did, if it can; `noun` is what a case
    of the campaign is called.
    """

    def __init__(self, folder: Path, seed: int, options: Sequence[str] = (), noun: str = "case") -> None:
        self._folder, self._seed, self._options, self._noun = folder, seed, options, noun
        self.count = 0

    @property
    def too_many(self) -> bool:
        return self.count >= LIMIT

    def record(self, index: int, traceback: str, draw: Callable[[], bytes], *, shrinking: bool = False) -> str:
        """Save what there is, `draw` giving the case as JSON; a line that reports it. `shrinking`: it was a candidate
        for a smaller form of the case with this index. Raises NotSaved."""
        self.count += 1
        name = f"seed-{self._seed}-{self._noun}-{index}" + (f"-candidate-{self.count}" if shrinking else "")
        trace, case = self._folder / f"{name}.txt", self._folder / f"{name}.json"
        kept = [trace]
        try:
            try:
                text = draw()
            except Exception:  # drawing may be what failed: then the traceback says so, and there is no case
                text = b""
            if text:
                write_whole(case, text)
                kept.append(case)
                if self._options:
                    traceback = f"{shlex.join(['harness', 'replay', str(case), *self._options])}\n\n{traceback}"
            write_whole(trace, traceback.encode())
        except OSError as error:
            raise NotSaved(f"the harness failed in {self._noun} {index} of seed {self._seed}, which", error) from error
        last = traceback.strip().splitlines()[-1:]
        where = " and ".join(map(str, kept))
        return f"the harness itself failed in {self._noun} {index}: {''.join(last)}; see {where}"
