"""The edited statements of a checkout, and probes that say which of them ran."""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from harness.kernel_cases.ran_edits import _in_kernel
from harness.kernels.targets.vllm.base_release import BaseRelease, base_of
from harness.kernels.targets.vllm.edits import (
    MOST_FILES,
    TOP,
    Edit,
    _edits_in,
    edits_of,
    files_to_watch,
    why_not_watched,
)
from harness.kernels.targets.vllm.importing import module_name
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.probes import Probes
from harness.kernels.targets.vllm.sources import WORKER, SourceTree, checkout_tree
from tests.releases import edit, editable

NEWEST = RELEASES[-1]
FILE = "vllm/v1/probed.py"


def edited(checkout: Path) -> list[tuple[str, bool]]:
    """Functions with edits, and whether they are kernels."""
    base = base_of(f"path:{checkout}")
    assert base is not None
    return [(one.function, one.kernel) for one in edits_of(checkout_tree(str(checkout)), base)]


KERNEL_LINE = "    new_num_computed = tl.load(num_computed_tokens_ptr + req_idx)\n        num_tokens_running_state"
GRID = (
    "        total_states = self.num_states\n        grid = (num_reqs, total_states, _TEMPORAL_TILES)\n        precopy_"
)
REFUSAL = "                if len(kv_caches) < len(state_copy_funcs):\n                    raise ValueError("


@pytest.mark.release
def test_statements_count_and_comments_do_not(tmp_path: Path) -> None:
    checkout = editable(NEWEST, tmp_path / "checkout")
    edit(checkout, WORKER, "    def run_fused_precopy(", "    # a comment\n    def run_fused_precopy(")
    edit(checkout, WORKER, "\ndef batch_memcpy(src_ptrs", '\n"""A text."""\nimport os\n\n\ndef batch_memcpy(src_ptrs')
    assert edited(checkout) == []
    edit(checkout, WORKER, GRID, GRID.replace("self.num_states", "int(self.num_states)"))
    assert edited(checkout) == [("MambaSpecDecodeGPUContext.run_fused_precopy", False)]
    edit(checkout, WORKER, KERNEL_LINE, KERNEL_LINE.replace("req_idx)", "req_idx + 0)"))
    assert edited(checkout) == [
        ("postprocess_mamba_fused_kernel", True),
        ("MambaSpecDecodeGPUContext.run_fused_precopy", False),
    ]


@pytest.mark.release
def test_conditions_of_kernels_count(tmp_path: Path) -> None:
    """The compiler may leave no line of one, and it decides what runs all the same."""
    checkout = editable(NEWEST, tmp_path / "checkout")
    edit(checkout, WORKER, "if src_block_id != dest_block_id or token_bias == 0:", "if token_bias >= 0:")
    assert edited(checkout) == [("_copy_mamba_state_block", True)]


BEFORE = '''
import functools


def outer(value, limit=3):
    """Words."""
    value = abs(value)
    if value > limit:
        # a comment
        return limit
    return value


def plain():
    first()
    return 1


class Counter:
    @property
    def width(self):
        return 7

    @functools.cached_property
    def height(self):
        return 8


@triton.jit(do_not_specialize=["rows"])
def copy(rows, SIZE: tl.constexpr):
    row = tl.program_id(0)
    return row
'''


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("    value = abs(value)\n", "", [("outer", 7, (7,))]),
        ("    first()\n", "", [("plain", 15, (15,))]),
        ("        # a comment\n", "", []),
        ("        # a comment\n", "        # another one\n        # and one more\n", []),
        ('    """Words."""\n', "", []),
        ('    """Words."""\n', '    """Other words."""\n', []),
        ("import functools\n", "", []),
        ("limit=3", "limit=4", [("outer", 6, (5,))]),
        ("(value, limit=3)", "(value, *, limit=3)", [("outer", 6, (5,))]),
        ("(value, limit=3)", "(value, limit: int = 3)", []),
        ("    @property\n", "", [("Counter.width", 21, (20,))]),
        ("    @property\n", "    @functools.cached_property\n", [("Counter.width", 22, (20,))]),
        ('["rows"]', '["rows", "columns"]', [("copy", 31, (29,))]),
        ("    return limit\n", "    return limit - 1\n", [("outer", 10, (10,))]),
    ],
)
def test_what_is_an_edit(tmp_path: Path, old: str, new: str, found: list[tuple[str, int, tuple[int, ...]]]) -> None:
    """Function, first line of the statement that a probe is put in front of, and edited lines."""
    trees = []
    for name, text in (("old", BEFORE), ("new", BEFORE.replace(old, new))):
        path = tmp_path / name / FILE
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
        trees.append(SourceTree(tmp_path / name, name, stable=False))
    edits = list(_edits_in(FILE, trees[1], trees[0]))
    assert [(one.function, one.start, one.lines) for one in edits] == found
    assert [one.kernel for one in edits] == [one.function == "copy" for one in edits]


def test_other_options_of_a_kernel_ran_if_the_kernel_did(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(module_name(WORKER))
    module.__file__ = "/src/worker.py"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    head = Edit(WORKER, "copy", 4, (2,), True, (4, 6))
    known = {("/src/worker.py", "copy", line) for line in (4, 6)}
    assert _in_kernel(head, {("/src/worker.py", "copy", 6)}, known)
    assert not _in_kernel(head, set(), known)


def test_a_statement_without_a_line_ran_if_those_around_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(module_name(WORKER))
    module.__file__ = "/src/worker.py"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    known = {("/src/worker.py", "copy", line) for line in (2, 5, 9)}
    in_branch = Edit(WORKER, "copy", 6, (6,), True, (5, 7))
    assert _in_kernel(in_branch, {("/src/worker.py", "copy", 5)}, known)
    assert not _in_kernel(in_branch, {("/src/worker.py", "copy", 2)}, known)
    never_compiled = Edit(WORKER, "copy", 12, (12,), True, (11, 13))
    assert not _in_kernel(never_compiled, known, known)


def test_edits_of_very_different_sources_are_not_looked_at() -> None:
    few, many = (BaseRelease(NEWEST, ("vllm/v1/a.py",) * count) for count in (MOST_FILES, MOST_FILES + 1))
    assert (len(files_to_watch(few)), why_not_watched(few)) == (MOST_FILES, None)
    assert (files_to_watch(many), why_not_watched(many)) == ((), f"{MOST_FILES + 1} files are changed")
    assert files_to_watch(None) == ()


SAMPLE = """
import functools

LIMIT = 3


def outer(values):
    total = 0

    def add(value):
        nonlocal total
        total += value

    for value in values:
        if value > LIMIT:
            add(value)
        elif value < 0:
            raise ValueError(value)
    return total


class Base:
    def size(self):
        return 1


class Counter(Base):
    @functools.cached_property
    def width(self):
        return 7

    @staticmethod
    def twice(value):
        return 2 * value

    def size(self):
        try:
            return super().size() + 1
        finally:
            self.seen = True


@functools.lru_cache
def cached(value):
    return value + 1
"""


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[tuple[SourceTree, Callable[[], ModuleType]]]:
    """A tree of one file, and a function that imports it."""
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    path.write_text(SAMPLE, encoding="utf-8")
    name = module_name(FILE)

    def load() -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    yield SourceTree(tmp_path, "the sample", stable=False), load
    sys.modules.pop(name, None)


def at(function: str, text: str) -> Edit:
    line = next(number for number, line in enumerate(SAMPLE.splitlines(), 1) if line.strip() == text)
    return Edit(FILE, function, line, (line,))


LIMIT = at(TOP, "LIMIT = 3")
ADD = at("outer.<locals>.add", "total += value")
CALL = at("outer", "add(value)")
RAISE = at("outer", "raise ValueError(value)")
WIDTH, TWICE = at("Counter.width", "return 7"), at("Counter.twice", "return 2 * value")
SIZE, CACHED = at("Counter.size", "return super().size() + 1"), at("cached", "return value + 1")


def test_probes_tell_what_ran_and_change_nothing(sample: tuple[SourceTree, Callable[[], ModuleType]]) -> None:
    tree, load = sample
    probes = Probes(tree, [LIMIT, ADD, CALL, RAISE, WIDTH, TWICE, SIZE, CACHED])
    probes.plant()
    assert probes.ran() == []
    module = load()
    before = module.Base.size.__code__
    probes.plant()
    assert probes.ran() == [LIMIT], "what runs when a module is imported has run"
    assert module.outer([1, 5, 9]) == 14
    assert probes.ran() == [LIMIT, ADD, CALL]
    counter = module.Counter()
    assert (counter.width, counter.twice(4), counter.size(), module.cached(1)) == (7, 8, 2, 2)
    assert probes.ran() == [LIMIT, ADD, CALL, WIDTH, TWICE, SIZE, CACHED]
    with pytest.raises(ValueError, match="-1") as raised:
        module.outer([-1])
    assert raised.traceback[-1].lineno + 1 == RAISE.start, "lines of a traceback are the file's"
    assert RAISE in probes.ran()
    assert module.Base.size.__code__ is before, "nothing else is touched"
    assert isinstance(vars(module.Counter)["width"], functools.cached_property)


def test_what_one_case_ran_is_known_apart(sample: tuple[SourceTree, Callable[[], ModuleType]]) -> None:
    tree, load = sample
    probes = Probes(tree, [ADD, SIZE, CACHED])
    module = load()
    probes.plant()
    module.outer([5])
    with probes.apart():
        assert probes.ran() == []
        module.Counter().size()
        assert probes.ran() == [SIZE]
    assert probes.ran() == [ADD, SIZE]
    module.cached(1)
    assert probes.ran() == [ADD, SIZE, CACHED]


def test_no_probe_is_planted_in_other_text_than_the_files(sample: tuple[SourceTree, Callable[[], ModuleType]]) -> None:
    """A planted fault has moved the lines."""
    tree, load = sample
    module = load()
    tree.path(FILE).with_name("other.py").write_text("\n" + SAMPLE, encoding="utf-8")
    module.__file__ = str(tree.path(FILE).with_name("other.py"))
    probes = Probes(tree, [CALL])
    probes.plant()
    module.outer([5])
    assert probes.ran() == []


@pytest.mark.release
@pytest.mark.long
def test_a_run_says_which_edited_lines_ran(
    harness: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, executor_name: str
) -> None:
    if executor_name == "interpreter":
        pytest.skip("it counts no lines of kernels")
    checkout = editable(NEWEST, tmp_path / "checkout")
    edit(checkout, WORKER, KERNEL_LINE, KERNEL_LINE.replace("req_idx)", "req_idx + 0)"))
    edit(checkout, WORKER, REFUSAL, REFUSAL.replace("raise ", "assert forward_context\n                    raise "))
    run = ("run", "-t", f"path:{checkout}", "--ops", "postprocess", "--cases", 64, "--scale", "small")
    done = harness(*run, "--json")
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["edited"]
    assert (found["lines"], found["ran"], found["reason"]) == (2, 1, None)
    assert [one["file"] for one in found["missed"]] == [WORKER]
    assert "edited lines: 1 of 2 ran (--verbose names the others)" in harness(*run).stdout
    assert f"({WORKER}): " in harness(*run, "--verbose").stdout


BIAS = "    accept_token_bias = aligned_new_computed - num_tokens_running_state\n"


@pytest.mark.release
@pytest.mark.long
def test_a_finding_says_which_edited_lines_its_case_ran(
    harness: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, executor_name: str
) -> None:
    """The mistake is no line of an access: only what ran leads to it. The other edit runs in no case of postprocess."""
    if executor_name == "interpreter":
        pytest.skip("it counts no lines of kernels")
    checkout = editable(NEWEST, tmp_path / "checkout")
    edit(checkout, WORKER, BIAS, BIAS.replace("\n", " + 1\n"))
    edit(checkout, WORKER, REFUSAL, REFUSAL.replace("raise ", "assert forward_context\n                    raise "))
    line = (checkout / WORKER).read_text(encoding="utf-8").splitlines().index(BIAS.rstrip("\n") + " + 1") + 1
    target, out = f"path:{checkout}", tmp_path / "findings"
    run = ("run", "-t", target, "--ops", "postprocess", "--cases", 64, "--scale", "small", "--out", out)
    done = harness(*run, "--json")
    assert done.stdout, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["edited"]["lines"], summary["edited"]["ran"]) == (2, 1), "what ran before is not forgotten"
    shrunk = [one for one in summary["findings"] if one["cases"]]
    assert shrunk
    ran = [{"file": WORKER, "function": "postprocess_mamba_fused_kernel", "lines": [line]}]
    assert all(one["edits"] == ran for one in shrunk)
    said = f"edited lines that this finding ran: {WORKER}:{line} (postprocess_mamba_fused_kernel)"
    assert said in harness("replay", shrunk[0]["repro"], "-t", target).stdout
