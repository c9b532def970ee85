"""A harness failure is a case that the harness itself could not judge: our own mistake, reported and kept, but not a
finding.

One such case must not cost a campaign the thousands around it. So the case is saved with its traceback, the campaign
continues with a new worker, and its exit status is 4, regardless of its findings.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Container, Sequence
from pathlib import Path

from harness.files import NotSaved, write_whole

FAILURES = "harness-failures"
"""The subfolder of a campaign for cases that the harness itself failed in."""

LIMIT = 5
"""A harness that fails this often has a fault, about which more cases say nothing new."""


class HarnessFailures:
    """The harness failures of one campaign, saved under `folder`, with the case if it can be drawn again.

    `options` make `harness replay` run the case as the campaign did, as far as it can; `noun` is what a case of the
    campaign is called.
    """

    def __init__(self, folder: Path, seed: int, options: Sequence[str] = (), noun: str = "case") -> None:
        self._folder, self._seed, self._options, self._noun = folder, seed, options, noun
        self._here = 0
        self._earlier: set[int] = set()
        """Cases that the harness failed in when an earlier part judged them, and that were not judged since."""

    @property
    def count(self) -> int:
        """How many there are."""
        return self._here + len(self._earlier)

    @property
    def too_many(self) -> bool:
        return self._here >= LIMIT

    def take_over(self, judged: Container[int]) -> None:
        """Count those of earlier parts as well, but for cases that were `judged` all the same."""
        name = re.compile(rf"seed-{self._seed}-{re.escape(self._noun)}-(\d+)\.txt")
        matches = (name.fullmatch(file.name) for file in self._folder.glob("*.txt"))
        self._earlier = {int(match[1]) for match in matches if match and int(match[1]) not in judged}

    def settle(self, index: int) -> None:
        """A case has been judged."""
        self._earlier.discard(index)

    def record(self, index: int, traceback: str, draw: Callable[[], bytes], *, shrinking: bool = False) -> str:
        """Save the traceback and, if `draw` can give it, the case as JSON. Returns a line that reports it. `shrinking`:
        the case is a candidate for a smaller form of the case with this index. Raises NotSaved."""
        self._here += 1
        self.settle(index)
        name = f"seed-{self._seed}-{self._noun}-{index}" + (f"-candidate-{self._here}" if shrinking else "")
        trace, case = self._folder / f"{name}.txt", self._folder / f"{name}.json"
        kept = [trace]
        try:
            try:
                text = draw()
            except Exception:  # if drawing failed, the traceback says so, and there is no case
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
