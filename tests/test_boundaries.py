"""Boundaries say which room of the product may import which: the table of docs/design.md, and no circles.

A room is a folder of source, named from the top of the repository; it includes those of its folders that have no row.
Only `harness` and `kernels` contain other rooms: their rows are for the files directly in them. All imports count, also
late ones and those for type checkers; `harness.kernels.x` is the target of the link `harness/kernels`.

`python tests/test_boundaries.py` prints the rows that the present imports need.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOFS = ("harness", "kernels")
HEADER = "| room | what is in it | what it may know |"

Table = Mapping[str, Sequence[str]]
"""What each room may know, by its name."""


class Import(NamedTuple):
    """One import: its file and line, and the file that it names, from the top of the repository."""

    file: str
    line: int
    target: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.target}"


class Unreadable(ValueError):
    """A row of the table, or an import, that cannot be tested."""


def read_table(text: str) -> dict[str, list[str]]:
    """The rows under HEADER. Raises Unreadable for a row of another form, a repeated room, or a missing table."""
    table: dict[str, list[str]] = {}
    for line in text.partition(HEADER)[2].strip("\n").splitlines()[1:]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        room = re.fullmatch(r"`([^`]+)`", cells[0])
        if room is None or len(cells) != 3:
            raise Unreadable(f"no row of one room in backquotes, what is in it and what it may know: {line}")
        name = room[1].strip("/")
        if name in table:
            raise Unreadable(f"two rows of {name}")
        if cells[2] == "nothing":
            table[name] = []
        elif re.fullmatch(r"`[^`]+`(, `[^`]+`)*", cells[2]):
            table[name] = [other.strip("/") for other in re.findall(r"`([^`]+)`", cells[2])]
        else:
            raise Unreadable(f"{name} may know neither rooms in backquotes nor nothing: {cells[2]}")
    if not table:
        raise Unreadable(f"no table under {HEADER}")
    return table


def read_modules(root: Path) -> dict[str, str]:
    """The files of the package, from the top of the repository, by the names under which they are imported."""
    modules: dict[str, str] = {}
    for folder, folders, names in os.walk(root / "harness", followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = Path(folder, name)
            if path.suffix == ".py":
                parts = path.relative_to(root).with_suffix("").parts
                module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                modules[module] = path.resolve().relative_to(root.resolve()).as_posix()
    return modules


def read_imports(root: Path) -> list[Import]:
    """All imports of the package's own files. Raises Unreadable for an import of a missing file."""
    modules = read_modules(root)
    packages = {".".join(name.split(".")[:depth]) for name in modules for depth in range(1, name.count(".") + 1)}
    found: list[Import] = []
    for module, file in modules.items():
        package = module if file.endswith("/__init__.py") else module.rpartition(".")[0]
        for line, name in _names(ast.parse((root / file).read_text(encoding="utf-8")), package, modules):
            if name in modules:
                found.append(Import(file, line, modules[name]))
            elif name.partition(".")[0] == "harness" and name not in packages:
                raise Unreadable(f"{file}:{line} imports {name}, which is not there")
    return found


def _names(tree: ast.Module, package: str, modules: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Lines, and the full names of the modules or other objects that are imported there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            within = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*within, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in modules else base


def room_of(file: str, rooms: Mapping[str, object]) -> str | None:
    """The room that a file is in: the deepest one above it."""
    folder = Path(file).parent
    for name in (folder, *folder.parents):
        room = name.as_posix()
        if room in rooms and (room not in ROOFS or name == folder):
            return room
    return None


def without_row(root: Path, table: Table) -> list[str]:
    """Files that are in no room."""
    return sorted(file for file in read_modules(root).values() if room_of(file, table) is None)


def without_room(root: Path, table: Table) -> list[str]:
    """Rows of rooms that have no file, and names in rows that have no row."""
    there = {room_of(file, table) for file in read_modules(root).values()}
    gone = [f"the row of {room}, which has no file" for room in table if room not in there]
    named = [f"{name}, which the row of {room} names" for room in table for name in table[room] if name not in table]
    return gone + named


def arrows(root: Path, table: Table) -> dict[tuple[str, str], list[Import]]:
    """The imports from each room into each other room."""
    found: dict[tuple[str, str], list[Import]] = {}
    for one in read_imports(root):
        source, target = room_of(one.file, table), room_of(one.target, table)
        if source is not None and target is not None and source != target:
            found.setdefault((source, target), []).append(one)
    return found


def forbidden(root: Path, table: Table) -> list[str]:
    """Imports that the table does not allow, with file and line."""
    return [
        f"{one} ({source} may not know {target})"
        for (source, target), imports in arrows(root, table).items()
        if target not in table[source]
        for one in imports
    ]


def unused(root: Path, table: Table) -> list[str]:
    """Permissions of the table that no import uses."""
    used = arrows(root, table)
    return [
        f"{room} imports nothing of {other}" for room in table for other in table[room] if (room, other) not in used
    ]


def circles(graph: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Circles of arrows, each from its first node back to it; no arrow is in two of them."""
    left = {node: set(targets) for node, targets in graph.items()}
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1][::-1]  # graphlib reverses the arrows
            found.append(circle)
            for source, target in pairwise(circle):
                left[source].discard(target)
        else:
            return found


def file_circles(root: Path) -> list[str]:
    """Circles of imports between files, each with the lines that make it."""
    lines: dict[tuple[str, str], Import] = {}
    graph: dict[str, set[str]] = {}
    for one in read_imports(root):
        if one.file != one.target:
            lines.setdefault((one.file, one.target), one)
            graph.setdefault(one.file, set()).add(one.target)
    ordered = {file: sorted(targets) for file, targets in sorted(graph.items())}
    return ["; ".join(str(lines[source, target]) for source, target in pairwise(circle)) for circle in circles(ordered)]


def needed_rows(root: Path, table: Table) -> list[str]:
    """A row for each room of the table, and for each folder that is in none, with what its imports need."""
    rooms = dict(table) | {Path(file).parent.as_posix(): [] for file in without_row(root, table)}
    used = arrows(root, rooms)
    rows = []
    for room in rooms:
        known = ", ".join(f"`{other}`" for other in rooms if (room, other) in used)
        rows.append(f"| `{room}` |  | {known or 'nothing'} |")
    return rows


@pytest.fixture(scope="module")
def table() -> Table:
    return read_table((ROOT / "docs" / "design.md").read_text(encoding="utf-8"))


def test_every_room_has_a_row_and_every_row_a_room(table: Table) -> None:
    assert without_row(ROOT, table) == []
    assert without_room(ROOT, table) == []


def test_imports_keep_to_the_table(table: Table) -> None:
    assert forbidden(ROOT, table) == []


def test_the_table_allows_nothing_that_is_not_used(table: Table) -> None:
    assert unused(ROOT, table) == []


def test_no_room_knows_a_room_that_knows_it(table: Table) -> None:
    assert circles(table) == []


def test_no_file_imports_one_that_imports_it() -> None:
    assert file_circles(ROOT) == []


# The same on a small tree, so that nothing above passes because it sees nothing.

TREE = {
    "harness/__init__.py": "",
    "harness/words.py": "import json",
    "harness/case/__init__.py": "from harness.case.layout import Layout",
    "harness/case/layout.py": "import harness.words",
    "harness/check/deep/judge.py": "from harness.kernels.targets import base",
    "kernels/targets/base.py": "from harness.case import Layout",
}
TABLE = {"harness": [], "harness/case": ["harness"], "harness/check": ["kernels"], "kernels": ["harness/case"]}
RIGHT = TABLE | {"harness/check": ["kernels/targets"], "kernels/targets": ["harness/case"]}
del RIGHT["kernels"]

Tree = Callable[..., Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    def make(**changed: str) -> Path:
        texts = TREE | {name.replace("__", "/") + ".py": text for name, text in changed.items()}
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (tmp_path / "harness" / "kernels").symlink_to("../kernels")
        return tmp_path

    return make


def test_a_valid_tree_has_no_errors(tree: Tree) -> None:
    root = tree()
    assert without_row(root, RIGHT) == without_room(root, RIGHT) == forbidden(root, RIGHT) == unused(root, RIGHT) == []
    assert file_circles(root) == circles(RIGHT) == []


def test_a_table_is_read() -> None:
    text = f"# Rooms\n\n{HEADER}\n|---|---|---|\n| `a/` | this | nothing |\n| `b` | that | `a`, `c/d/` |\n\n| `e` |\n"
    assert read_table(text) == {"a": [], "b": ["a", "c/d"]}


@pytest.mark.parametrize(
    "row",
    [
        "| `a`, `b` | two rooms | nothing |",
        "| a | no name | nothing |",
        "| `a` | this | everything |",
        "| `a` | this | `b` and `c` |",
        "| `a` | this |",
        "| `a` | this | nothing |\n| `a/` | again | nothing |",
        "",
    ],
)
def test_another_table_is_refused(row: str) -> None:
    with pytest.raises(Unreadable):
        read_table(f"{HEADER}\n|---|---|---|\n{row}\n")


def test_rooms_that_contain_rooms_have_only_the_files_directly_in_them(tree: Tree) -> None:
    assert without_row(tree(), TABLE) == ["kernels/targets/base.py"]
    assert room_of("kernels/buffer.py", TABLE) == "kernels"


def test_the_deepest_row_counts() -> None:
    rooms = {"kernels/targets": [], "kernels/targets/vllm/scheduling": []}
    assert room_of("kernels/targets/vllm/target.py", rooms) == "kernels/targets"
    assert room_of("kernels/targets/vllm/scheduling/engine.py", rooms) == "kernels/targets/vllm/scheduling"


def test_rows_without_rooms_and_names_without_rows_are_reported(tree: Tree) -> None:
    gone = without_room(tree(), RIGHT | {"harness/old": [], "harness/check": ["kernels/targets", "reports"]})
    assert gone == ["the row of harness/old, which has no file", "reports, which the row of harness/check names"]


@pytest.mark.parametrize(
    "text",
    [
        "from harness.check.deep.judge import judge",
        "from harness.check.deep import judge",
        "import harness.check.deep.judge",
        "from ..check.deep import judge",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import harness.check.deep.judge",
        "def late():\n    from harness.check.deep import judge",
    ],
)
def test_an_import_that_the_table_lacks_is_reported_with_its_line(tree: Tree, text: str) -> None:
    root, line = tree(harness__case__layout=text), text.count("\n") + 1
    assert forbidden(root, RIGHT) == [
        f"harness/case/layout.py:{line} imports harness/check/deep/judge.py (harness/case may not know harness/check)"
    ]
    assert len(file_circles(root)) == 1


def test_links_are_followed_to_where_they_lead(tree: Tree) -> None:
    wrong = RIGHT | {"kernels/targets": []}
    message = "kernels/targets/base.py:1 imports harness/case/__init__.py (kernels/targets may not know harness/case)"
    assert forbidden(tree(), wrong) == [message]


def test_what_is_allowed_and_not_used_is_reported(tree: Tree) -> None:
    assert unused(tree(), RIGHT | {"kernels/targets": ["harness/case", "harness"]}) == [
        "kernels/targets imports nothing of harness"
    ]


def test_an_import_of_a_missing_file_is_an_error(tree: Tree) -> None:
    with pytest.raises(Unreadable, match=r"^harness/words\.py:2 imports harness\.old\.place, which is not there$"):
        read_imports(tree(harness__words="\nfrom harness.old.place import x"))


def test_circles_are_found_one_by_one(tree: Tree) -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}) == [["a", "b", "c", "a"]]
    assert len(circles({"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"], "e": ["e"]})) == 3
    root = tree(harness__words="import harness.kernels.targets.base", kernels__targets__base="import harness.words")
    assert file_circles(root) == [
        "harness/words.py:1 imports kernels/targets/base.py; kernels/targets/base.py:1 imports harness/words.py"
    ]


def test_needed_rows_are_a_valid_table(tree: Tree) -> None:
    root = tree()
    rows = needed_rows(root, {})
    table = read_table("\n".join([HEADER, "|---|---|---|", *rows]))
    assert forbidden(root, table) == without_row(root, table) == without_room(root, table) == unused(root, table) == []


if __name__ == "__main__":
    try:
        TODAY: Table = read_table((ROOT / "docs" / "design.md").read_text(encoding="utf-8"))
    except Unreadable:
        TODAY = {}
    print(*needed_rows(ROOT, TODAY), sep="\n")
