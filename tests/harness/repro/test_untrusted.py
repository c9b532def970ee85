"""Repro files are untrusted: any mistake in one results in a single line and status 2, and nothing is written."""

from __future__ import annotations

import copy
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.case import InvalidCase, decode_case
from harness.kernel_cases.worker import CaseWorker
from harness.repro import MAX_BYTES, read_repro
from harness.subject.trust import may_choose

Command = Callable[..., tuple[int, str, str]]
Document = dict[str, Any]


def write(path: Path, content: Any) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def check_refusal(
    command: Command, path: Path, message: str = "", names: tuple[str, ...] = ("replay", "show", "shrink")
) -> None:
    folder = path.parent
    before = sorted(folder.rglob("*"))
    for name in names:
        status, out, err = command(name, path)
        assert status == 2, (name, out, err)
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith(f"harness: {path}: ")
        assert message in err
        assert len(err) < 600 + len(str(path))
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a repro file"),
        (b"\x7fELF\x00\x01\x02\xff" * 100, "not a repro file"),
        (b"{", "not a repro file"),
        (b"[]", "not a repro file"),
        (b"null", "not a repro file"),
        (b"{}", "harness_repro"),
        (b"[" * 1_000_000, "not a repro file"),
        (b'{"harness_repro":1,"case":' + b'{"a":' * 500_000, ""),
        (b'{"harness_repro":1,"case":' + b"[" * 500_000 + b"]" * 500_000 + b"}", ""),
        (b'{"harness_repro":2}', "repro format 2; this version of harness reads format 1"),
        (b'{"harness_repro":"1"}', "not a repro file"),
        (b'{"harness_repro":1}', "not a valid repro file"),
        ("\ud800".encode("utf-8", "surrogatepass"), "not a repro file"),
        (b"# a note\n", "not a repro file"),
    ],
    ids=lambda value: repr(value[:14]),
)
def test_texts_that_are_not_a_repro(command: Command, tmp_path: Path, content: bytes, message: str) -> None:
    check_refusal(command, write(tmp_path / "bug.json", content), message)


def test_what_is_not_there_or_not_a_file(command: Command, tmp_path: Path) -> None:
    check_refusal(command, tmp_path / "missing.json", "no such file")
    (tmp_path / "folder").mkdir()
    check_refusal(command, tmp_path / "folder", "not a file", ("shrink",))
    check_refusal(command, tmp_path / "folder", "no repro file in this folder", ("replay", "show"))
    os.mkfifo(tmp_path / "pipe")
    check_refusal(command, tmp_path / "pipe", "not a file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "secret.json", b"{}")
    path.chmod(0)
    check_refusal(command, path, "cannot be read")


@pytest.mark.parametrize("size", [MAX_BYTES + 1, 100 << 20, 1 << 40])
def test_enormous_files_are_not_even_read(command: Command, tmp_path: Path, size: int) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(size)
    begin = time.monotonic()
    check_refusal(command, path, f"{size} bytes")
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated(command: Command, frozen: Path, tmp_path: Path, share: float) -> None:
    text = (frozen / "wrong-group-minimal.json").read_bytes()
    check_refusal(command, write(tmp_path / "cut.json", text[: int(len(text) * share)]))


def spoilt(document: Document) -> Iterator[tuple[str, Document]]:
    """Documents with one mistake each, and the message about it."""
    for path, value, message in (
        (("surprise",), 1, "surprise"),
        (("case", "surprise"), 1, "surprise"),
        (("origin", "surprise"), 1, "surprise"),
        (("signature", "surprise"), 1, "surprise"),
        (("evidence", "surprise"), 1, "surprise"),
        (("evidence", "differences", 0, "surprise"), 1, "surprise"),
        (("origin", "target"), "x" * 5000, "target"),
        (("origin", "seed"), "0", "seed"),
        (("case", "version"), 2, "version"),
        (("case", "layout", "num_blocks"), 2**24 + 1, "num_blocks"),
        (("case", "layout", "num_blocks"), 9, "ends at byte"),
        (("case", "layout", "buffers", 0, "size"), 2**40 + 1, "size"),
        (("case", "layout", "groups"), document["case"]["layout"]["groups"] * 40, "groups"),
        (("case", "contents", "owners"), [], "owners"),
        (("case", "program"), [], "program"),
        (("case", "program", 0, "rows", 0, "slot"), 1, "V1"),
        (("case",), None, "case"),
        (("evidence",), [], "evidence"),
        (("signature", "operation"), 3, "operation"),
    ):
        changed = copy.deepcopy(document)
        place: Any = changed
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        yield message, changed


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("sequenz", "unknown kind 'sequenz'; did you mean 'sequence'?; known: case, sequence, engine"),
        ("x" * 10_000, f"unknown kind '{'x' * 40}'; known: case, sequence, engine"),
        ("", "unknown kind ''; known: case, sequence, engine"),
        (None, "not a repro file: Expected `str`, got `null` - at `$.kind`"),
        (3, "not a repro file: Expected `str`, got `int` - at `$.kind`"),
    ],
)
def test_kinds_that_are_not_known(
    command: Command, document: Document, tmp_path: Path, kind: Any, message: str
) -> None:
    path = write(tmp_path / "bug.json", {**document, "kind": kind})
    check_refusal(command, path, f"{path}: {message}\n", ("show", "replay"))


def test_a_kernel_case_may_say_that_it_is_one(document: Document, tmp_path: Path) -> None:
    plain, tagged = write(tmp_path / "a.json", document), write(tmp_path / "b.json", {"kind": "case", **document})
    assert read_repro(tagged) == read_repro(plain)


@pytest.mark.parametrize("name", ["replay", "show", "shrink", "sweep"])
def test_a_pipe_is_refused_and_not_waited_for(command: Command, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "bug.json")
    check_refusal(command, tmp_path / "bug.json", "not a file", (name,))


def test_files_that_contradict_a_bound_or_themselves(command: Command, document: Document, tmp_path: Path) -> None:
    for message, changed in spoilt(document):
        check_refusal(command, write(tmp_path / "bug.json", changed), message)


@pytest.mark.parametrize("name", ["path:/etc", "path:.", "vllm", "broken:segfault", "", "builtinx", "vllm=0.33.0"])
def test_a_file_does_not_choose_what_code_runs(command: Command, document: Document, tmp_path: Path, name: str) -> None:
    document["origin"]["target"] = name
    path = write(tmp_path / "bug.json", document)
    for operation in ("replay", "shrink"):
        status, out, err = command(operation, path)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert f"{name!r}, and a file may not choose what code of this machine runs" in err
        assert "--target" in err
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["builtin", "builtin+wrong-group", "vllm==0.33.0", "vllm==0.22.0+int32-offset"])
def test_a_file_may_name_our_own_kernels_and_releases(document: Document, tmp_path: Path, name: str) -> None:
    document["origin"]["target"] = name
    assert may_choose(read_repro(write(tmp_path / "bug.json", document)).origin.target)


def test_an_unknown_mutation_in_a_file(command: Command, document: Document, tmp_path: Path) -> None:
    document["origin"]["target"] = "builtin+nonsense"
    status, _, err = command("replay", write(tmp_path / "bug.json", document))
    assert (status, err.count("\n")) == (2, 1)
    assert "nonsense" in err


# Files within the bounds of the schema that would need more memory or time than a case may take.


def layout_of(document: Document) -> Document:
    layout = document["case"]["layout"]
    assert isinstance(layout, dict)
    return layout


def hostile(document: Document) -> Iterator[tuple[str, Document]]:
    first, second = layout_of(document)["groups"]
    (state,) = second["layers"][0]["states"]

    def made(name: str) -> tuple[Document, Document]:
        changed = copy.deepcopy(document)
        return changed, layout_of(changed)

    changed, layout = made("buffers")
    layout["buffers"] = [{"size": 2**40}] * 256
    yield "256 buffers of 2**40 bytes", changed

    changed, layout = made("blocks")
    layout["num_blocks"] = 2**20
    layout["buffers"] = [{"size": 2**30}] * 2
    changed["case"]["contents"]["owners"] = [-1] * 2**20
    yield "2**20 blocks", changed

    changed, layout = made("far blocks")
    layout["num_blocks"] = 2**18
    layout["buffers"] = [{"size": 2**40}] * 2
    for group in layout["groups"]:
        for layer in group["layers"]:
            for each in layer["states"]:
                each["block_stride"] = 2**22
    changed["case"]["contents"]["owners"] = [-1] * 2**18
    yield "2**18 blocks far apart", changed

    changed, layout = made("large states")
    layout["buffers"] = [{"size": 2**40}] * 2
    layout["groups"][1]["layers"][0]["states"] = [
        {**state, "shape": [2**24, 2**8], "block_stride": 2**33, "item_size": 1}
    ]
    yield "states of 2**32 bytes", changed

    changed, layout = made("tables")
    layout["table_rows"], layout["table_columns"] = 2**20, 2**20
    yield "tables of 2**40 cells", changed

    changed, layout = made("speculation")
    layout["table_rows"], layout["table_columns"], layout["num_spec"], layout["block_size"] = 2**20, 2, 1024, 2048
    layout["groups"] = [first] * 64
    changed["case"]["contents"]["tables"] = [[]] * 64
    yield "64 groups of 2**20 requests with 1024 drafts", changed

    changed, layout = made("groups")
    layout["groups"] = [{"layers": [{"states": [state] * 8}] * 128}] * 64
    layout["num_blocks"] = 2**12
    layout["buffers"] = [{"size": 2**20}] * 2
    changed["case"]["contents"]["tables"] = [[]] * 64
    changed["case"]["contents"]["owners"] = [-1] * 2**12
    yield "65536 states of 4096 blocks", changed

    changed, layout = made("rows")
    layout["table_rows"] = 2**20
    changed["case"]["contents"]["tables"] = [[], []]
    changed["case"]["program"] = [{"type": "postprocess", "runner": "V1", "rows": []}] * 64
    yield "64 operations on 2**20 requests", changed


def test_within_the_schema_but_too_much(document: Document, tmp_path: Path, command: Command) -> None:
    """Refused by the plan, before anything is allocated: neither slow nor large."""
    for name, changed in hostile(document):
        path = write(tmp_path / "bug.json", changed)
        read_repro(path)  # valid, as far as a schema goes
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begin = time.monotonic()
        status, _, err = command("show", path)
        assert (status, err.count("\n")) == (2, 1), (name, status, err[:500])
        assert err.startswith("harness: "), name
        assert time.monotonic() - begin < 20, name
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600_000, name


@pytest.mark.long
def test_a_worker_refuses_them_and_lives(document: Document, executor_name: str) -> None:
    with CaseWorker("builtin", executor_name, limit=60.0) as worker:
        worker.wait_ready()
        for name, changed in hostile(document):
            case = decode_case(json.dumps(changed["case"]).encode())
            with pytest.raises(InvalidCase):
                worker.check(case)
            assert worker.alive, name
        assert worker.check(decode_case(json.dumps(document["case"]).encode())).failure is None
