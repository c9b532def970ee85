"""Line coverage: which lines of each kernel function ran, out of those that its compiled variants have.

It is the best proof that a campaign reached something. Variants are compiled for what the cases need, so the number of
lines of a function differs from run to run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.kernel_cases.summary import LineCoverage
from harness.kernel_cases.worker import KernelLine, kernel_lines
from harness.worker.losses import WorkerError, WorkerLost
from harness.worker.process import WorkerProcess


class KernelLines:
    """Lines collected from the workers of one campaign."""

    def __init__(self) -> None:
        self._executed: set[KernelLine] = set()
        self._known: set[KernelLine] = set()

    def collect(self, workers: Iterable[WorkerProcess]) -> int:
        """Ask the workers. Returns how many gave no answer: their cases have been judged, but the lines they ran are
        not known."""
        silent = 0
        for worker in workers:
            if not worker.alive:  # asking would start a new worker, which has run nothing
                silent += 1
                continue
            try:
                executed, known = kernel_lines(worker)
            except (WorkerLost, WorkerError):
                silent += 1
                continue
            self._executed.update(executed)
            self._known.update(known)
        return silent

    def remembered(self) -> tuple[list[KernelLine], list[KernelLine]]:
        """Lines that ran, and all lines, for `recall` in a later part of the campaign."""
        return sorted(self._executed), sorted(self._known)

    def recall(self, executed: Iterable[KernelLine], known: Iterable[KernelLine]) -> None:
        """Add what an earlier part remembered."""
        self._executed.update(executed)
        self._known.update(known)

    def coverage(self) -> list[LineCoverage]:
        """The coverage by file and function."""
        functions: dict[tuple[str, str], set[int]] = {}
        for file, function, line in self._known:
            functions.setdefault((file, function), set()).add(line)
        found = []
        for (file, function), lines in sorted(functions.items()):
            missed = sorted(line for line in lines if (file, function, line) not in self._executed)
            found.append(LineCoverage(Path(file).name, function, len(lines) - len(missed), len(lines), missed))
        return found
