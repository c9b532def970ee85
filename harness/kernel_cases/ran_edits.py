"""Which edits of a checkout kernel cases ran: lines of kernels, as the executor counts them, and lines of host code."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from harness.kernels.executors.base import Executor
from harness.kernels.targets.registry import parse
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.kernels.targets.vllm.edits import Edit, edits_of
from harness.kernels.targets.vllm.importing import module_name
from harness.kernels.targets.vllm.probes import Probes
from harness.kernels.targets.vllm.sources import HYBRID, source_tree
from harness.kernels.targets.vllm.under_test import files_under_test
from harness.subject.edits import EditedLines, answer

KernelLine = tuple[str, str, int]
"""File, function and line number."""


class RanEdits:
    """Those of one worker, from when the target is loaded. On an executor that counts no lines of kernels, only edits
    of host code are looked at."""

    def __init__(self, target: str, base: BaseRelease, executor: Executor) -> None:
        tree = source_tree(parse(target).name)
        self._executor = executor
        files = files_under_test(tree, hybrid=tree.has(HYBRID))
        self._edits = [edit for edit in edits_of(tree, base) if edit.file in files]
        self._probes = Probes(tree, self._edits)
        self._probes.plant()

    def answer(self) -> bytes:
        """What a worker answers when it is asked for them."""
        return answer(_lines_of(self._watched()), self.so_far())

    def so_far(self) -> list[EditedLines]:
        """Those that ran."""
        known, executed = set(self._executor.known_lines()), set(self._executor.executed_lines())
        python = set(self._probes.ran())
        return _lines_of(
            edit for edit in self._watched() if (_in_kernel(edit, executed, known) if edit.kernel else edit in python)
        )

    def _watched(self) -> list[Edit]:
        known = bool(self._executor.known_lines())
        return [edit for edit in self._edits if known or not edit.kernel]

    @contextmanager
    def apart(self) -> Iterator[None]:
        """While this lasts, `so_far` has only what runs meanwhile. Afterwards it has that and all that had run
        before."""
        before = set(self._executor.executed_lines())
        self._executor.forget_lines()
        try:
            with self._probes.apart():
                yield
        finally:
            self._executor.add_lines(before)


def _lines_of(edits: Iterable[Edit]) -> list[EditedLines]:
    return [EditedLines(edit.file, edit.function, edit.lines) for edit in edits]


def _in_kernel(edit: Edit, executed: set[KernelLine], known: set[KernelLine]) -> bool:
    """Whether a line of an edited statement of a kernel ran. Of some statements the compiler leaves no line, such as
    conditions on constants: they ran if anything of the statements around them did."""
    module = sys.modules.get(module_name(edit.file))
    if module is None:
        return False
    file, function = str(module.__file__), edit.function.rpartition(".")[2]
    own = {(file, function, line) for line in edit.lines}
    if known.isdisjoint(own):
        first, last = edit.block
        own = {line for line in known if line[:2] == (file, function) and first <= line[2] <= last}
    return not executed.isdisjoint(own)
