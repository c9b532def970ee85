"""A lost operation is one that a target's base release has and the target lacks: nothing tests it any more.

That is seen from the sources alone, before anything runs: a function or method that an operation calls is gone, is in
another class, or takes other parameters; or it is there, and the code of a runner that called it does not any more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from harness.case import Runner
from harness.exit_status import NOT_REACHED
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.kernels.targets.vllm.features import (
    ADVANCE_FORM,
    ALL_MODE_FORMS,
    BUFFERS,
    BUFFERS_FORM,
    CONTEXT,
    CONTEXT_FORMS,
    FILL_KERNEL,
    HOST_FORMS,
    HYBRID_STATE,
    INDICES_FORM,
    SCATTER_FORM,
    Features,
    NoContext,
    definitions,
    features,
    methods_of,
    parameters_of,
)
from harness.kernels.targets.vllm.sources import HYBRID, WORKER, SourceTree
from harness.kernels.targets.vllm.syntax import parsed
from harness.refusal import Refusal

RUNNERS = "vllm/v1/worker/"
"""The code of both runners."""
V2_RUNNER = "vllm/v1/worker/gpu/"


class Lost(msgspec.Struct, frozen=True):
    """`operation` is lost because of `name`, a function or `Class.method` of `file`; `why` is a line that says what was
    looked for."""

    operation: str
    name: str
    file: str
    why: str

    def __str__(self) -> str:
        return f"{self.operation}: {self.why}"


class _Need(NamedTuple):
    """Something that an operation calls: a function or `Class.method` of `file`. Its parameters are one of `forms`, or
    begin like one of them if it may have `more`; None: whatever they are. `runners` are those whose code calls it."""

    file: str
    name: str
    forms: tuple[tuple[str, ...], ...] | None = None
    more: bool = False
    runners: tuple[Runner, ...] = ()

    def takes(self, function: ast.FunctionDef) -> bool:
        """Whether the harness knows how to call it."""
        found = tuple(parameters_of(function))
        return self.forms is None or any((found[: len(form)] if self.more else found) == form for form in self.forms)


def _forms(*forms: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(map(tuple, forms))


def _context(name: str, *runners: Runner) -> _Need:
    return _Need(WORKER, f"{CONTEXT}.{name}", _forms(*CONTEXT_FORMS[name]), runners=runners)


def _host(name: str) -> _Need:
    return _Need(WORKER, name, _forms(HOST_FORMS[name]), more=True, runners=("V1",))


def _all_mode(name: str) -> _Need:
    return _Need(WORKER, name, _forms(ALL_MODE_FORMS[name]), more=True, runners=("V1",))


_PRECOPY = _context("run_fused_precopy", "V1", "V2")
_BUFFERS = _Need(WORKER, f"{BUFFERS}.create", _forms(BUFFERS_FORM))
_POSTPROCESS_STATE = _Need(
    HYBRID, f"{HYBRID_STATE}.postprocess_state", _forms(SCATTER_FORM), more=True, runners=("V2",)
)

NEEDS: Mapping[str, Sequence[_Need]] = {
    "postprocess": (_context("run_fused_postprocess", "V1"), _context("run_fused_postprocess_align", "V2")),
    "precopy": (_PRECOPY,),
    "advance": (_Need(HYBRID, f"{HYBRID_STATE}.preprocess_state", _forms(ADVANCE_FORM), runners=("V2",)),),
    "aligned-indices": (
        _Need(WORKER, f"{CONTEXT}.compute_aligned_state_indices", _forms(INDICES_FORM), runners=("V1", "V2")),
    ),
    "stage": (_BUFFERS, _host("stage_postprocess_inputs_to_gpu")),
    "scalar-copy": (_BUFFERS, _host("collect_mamba_copy_meta"), _host("do_mamba_copy_block")),
    "postprocess-entry": (_BUFFERS, _host("postprocess_mamba_align_gpu")),
    "scatter-accepted": (_POSTPROCESS_STATE,),
    "fill-accepted": (_POSTPROCESS_STATE, _Need(HYBRID, FILL_KERNEL)),
    "preprocess": (
        _BUFFERS,
        _host("preprocess_mamba"),
        _host("collect_mamba_copy_meta")._replace(runners=()),
        _host("do_mamba_copy_block")._replace(runners=()),
        _PRECOPY._replace(runners=()),
    ),
    "all-mode": (_all_mode("preprocess_mamba_all_specdec"), _all_mode("postprocess_mamba_all")),
}
"""What operations call, by their names (harness/case/operations)."""


_LEFT_WITH: Mapping[str, Callable[[Features], bool]] = {"all-mode": lambda found: found.rows_by == "slot"}
"""Operations that no release has any more, and how it shows that a target was made from a release without them: by
something else that changed in the same release (0.32.0)."""


class LostTarget(Refusal):
    """Nothing of a target can be tested although its base release can."""

    exit_status = NOT_REACHED


def require_context(tree: SourceTree, base: BaseRelease) -> None:
    """Raise LostTarget, with one line, if a target has lost the context that all operations need."""
    try:
        features(tree)
    except NoContext as refusal:
        pattern = re.compile(rf"^class {CONTEXT}\b", re.MULTILINE)
        elsewhere = [file for file in _python_files(tree) if file != WORKER and pattern.search(tree.text(file))]
        place = f"; there is a {CONTEXT} in {' and '.join(elsewhere)}" if elsewhere else ""
        looked = f"looked for {refusal.name} in {WORKER}, as in {base.name}"
        raise LostTarget(f"{tree.origin}: LOST all operations: {looked}: {refusal.found}{place}") from refusal


def left_operations(tree: SourceTree) -> frozenset[str]:
    """Operations that a target lacks as all newer releases do, whatever its base release is. Raises UnknownTarget."""
    found = features(tree)
    return frozenset(operation for operation, left in _LEFT_WITH.items() if left(found))


def lost_operations(tree: SourceTree, base: BaseRelease | None) -> tuple[Lost, ...]:
    """What a target with these sources has lost. Raises UnknownTarget if a file is not valid Python."""
    if base is None or not any(file.startswith((RUNNERS, HYBRID)) for file in base.changed):
        return ()
    old = base.tree
    before, after = _Definitions(old), _Definitions(tree)
    found = [
        Lost(operation, need.name, need.file, f"looked for {need.name} in {need.file}, as in {base.name}: {how}")
        for operation, needs in NEEDS.items()
        for need in needs
        if (function := before.of(need)) is not None
        and need.takes(function)
        and (how := _gone(need, function, after)) is not None
    ]
    missing = {lost.name for lost in found}
    if _PRECOPY.name not in missing and features(old).v1_precopy and not features(tree).v1_precopy:
        why = f"{_PRECOPY.name} in {WORKER} takes no idx_mapping of None, that of the V1 runner, as in {base.name}"
        found += [Lost(operation, _PRECOPY.name, WORKER, why) for operation in ("precopy", "preprocess")]
    called = {need for needs in NEEDS.values() for need in needs if need.runners and need.name not in missing}
    uncalled = dict(_uncalled(old, tree, base.changed, called))
    found += [
        Lost(operation, need.name, need.file, f"{need.name} is tested, but {how}, as in {base.name}")
        for operation, needs in NEEDS.items()
        for need in needs
        if need.runners and (how := uncalled.get(need.name)) is not None
    ]
    return tuple(found)


class _Definitions:
    """Functions and methods that files of a source tree define."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._files: dict[str, dict[str, ast.FunctionDef]] = {}

    def of(self, need: _Need) -> ast.FunctionDef | None:
        return self.in_file(need.file).get(need.name)

    def in_file(self, file: str) -> Mapping[str, ast.FunctionDef]:
        """All that are in `file`, or have moved from there and are imported again, by `name` or `Class.name`; nothing
        if there is no such file."""
        if file not in self._files:
            body = definitions(self._tree, file).body
            functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
            for kind in (node for node in body if isinstance(node, ast.ClassDef)):
                methods = methods_of(ast.Module(body, []), kind)
                functions.update({f"{kind.name}.{name}": method for name, method in methods.items()})
            self._files[file] = functions
        return self._files[file]


def _gone(need: _Need, before: ast.FunctionDef, after: _Definitions) -> str | None:
    """What there is instead of something that the base release has; None if it is there."""
    function = after.of(need)
    if function is not None:
        if need.takes(function):
            return None
        return f"it takes {_list(parameters_of(function))} now, and took {_list(parameters_of(before))}"
    last = need.name.rpartition(".")[2]
    elsewhere = [name for name in after.in_file(need.file) if name.rpartition(".")[2] == last]
    return f"there is {' and '.join(elsewhere)} now" if elsewhere else "it is not there"


def _list(names: Sequence[str]) -> str:
    return f"({', '.join(names)})"


def _uncalled(
    old: SourceTree, tree: SourceTree, changed: Sequence[str], needs: Iterable[_Need]
) -> Iterator[tuple[str, str]]:
    """Names that a runner's code called in the base release and calls nowhere now, with words that say so."""
    needs = list(needs)
    wanted = {need.name.rpartition(".")[2] for need in needs}
    before = {runner: _called(old, _of_runner(changed, runner), wanted) for runner in ("V1", "V2")}
    after = {runner: _called(tree, _of_runner(changed, runner), wanted) for runner in ("V1", "V2")}
    for need in needs:
        last = need.name.rpartition(".")[2]
        for runner in need.runners:
            if last not in before[runner] or last in after[runner]:
                continue
            same = [file for file in _of_runner(_python_files(old), runner) if file not in changed]
            if not _called(old, same, {last}):
                callers = " and ".join(sorted(before[runner][last]))
                yield need.name, f"nothing of the {runner} runner calls it: {callers} does not"


def _of_runner(files: Iterable[str], runner: str) -> list[str]:
    return [file for file in files if file.startswith(RUNNERS) and file.startswith(V2_RUNNER) == (runner == "V2")]


def _python_files(tree: SourceTree) -> list[str]:
    return [path.relative_to(tree.directory).as_posix() for path in tree.path(RUNNERS).rglob("*.py")]


def _called(tree: SourceTree, files: Iterable[str], names: set[str]) -> dict[str, set[str]]:
    """Those of `names` that code in `files` calls, with the files that do. A file that is not there calls nothing."""
    found: dict[str, set[str]] = {}
    call = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b") if names else None
    for file in files:
        if call is None or not tree.has(file) or not call.search(tree.text(file)):
            continue
        for node in ast.walk(parsed(tree, file)):
            if isinstance(node, ast.Call):
                function = node.func
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
                if name in names:
                    found.setdefault(str(name), set()).add(file)
    return found
