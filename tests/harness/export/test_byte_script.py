"""Scripts that show findings of kernels: what they are made of, and that they show the same without the harness."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from harness.case import Advance, AdvanceRow, Case
from harness.check.outcome import Evidence, Signature
from harness.export.byte_script import BYTE_SCRIPT, is_blind, limits
from harness.export.form import NotExportable, Request
from harness.export.kernel_data import script_case
from harness.export.registry import export
from harness.repro import Repro, read_repro
from tests.harness.export.environments import new_environment, run
from tests.harness.export.test_literals import HOSTILE
from tests.releases import sources

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT / "corpus"
FILES = sorted(path.stem for path in CORPUS.glob("*.json"))

SHOWN = {
    "address-past-2-63": ("0.22.0", "0.33.0"),
    "ds-bias-refused": ("0.26.0", "0.33.0"),
    "ds-drafts-refused": ("0.26.0", "0.29.0"),
    "ds-window-as-sd": ("0.22.0", "0.24.0"),
    "uncopied-states-refused": ("0.29.0", "0.30.0"),
    "v2-accepted-race-conv-ds": ("0.27.1", "0.33.0"),
    "v2-accepted-race-conv-sd": ("0.27.1", "0.28.0"),
    "v2-accepted-race-temporal": ("0.25.0", "0.28.0"),
    "v2-accepted-race-temporal-total": ("0.27.1", "0.33.0"),
}
"""An affected release, where the script fails, and a fixed one, where it passes."""
NOT_ON_A_CPU = {
    "shift-within-block-ds": "race between warps",
    "shift-within-block-sd": "race between warps",
    "shift-within-block-precopy-total": "race between warps",
    "v2-accepted-race-many-programs": "for a GPU",
}
"""What the others say instead."""


def request(repro: Repro, name: str = "finding") -> Request:
    return Request(name, "case", repro, repro.origin.target)


def script_of(name: str) -> str:
    return BYTE_SCRIPT.text(request(read_repro(CORPUS / f"{name}.json"), name))


def test_every_file_of_the_corpus_is_in_one_of_the_tables() -> None:
    assert sorted([*SHOWN, *NOT_ON_A_CPU]) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_script_needs_nothing_of_the_harness(name: str) -> None:
    text = script_of(name)
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported - sys.stdlib_module_names <= {"torch", "triton", "numpy"}
    assert not re.search(r"harness\.\w+\.\w|/root|/home|/tmp|noqa|type: ignore", text)
    compile(text, name, "exec")


@pytest.mark.parametrize("name", FILES)
def test_all_that_a_script_uses_is_in_it(name: str) -> None:
    """Names that no part of it defines, and that are no built-in ones."""
    tree = ast.parse(script_of(name))
    known = set(dir(__builtins__)) | set(__builtins__ if isinstance(__builtins__, dict) else ())
    known |= {"__name__", "self"}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, ast.alias):
            known.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            known.add(node.name)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert used - known == set()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_texts_of_a_file_never_become_code(text: str) -> None:
    plain = read_repro(CORPUS / "v2-accepted-race-temporal.json")
    replace = msgspec.structs.replace
    hostile = replace(
        plain,
        signature=replace(plain.signature, oracle=f"relation:{text}", violation=text, object=text),
        evidence=replace(plain.evidence, summary=text, details=(text,)),
        origin=replace(plain.origin, target=text, executor=text, harness_version=text),
    )
    (there,) = (replace(plain, signature=replace(plain.signature, oracle="relation:other")),)
    found = ast.parse(BYTE_SCRIPT.text(request(hostile, text)))
    wanted = ast.parse(BYTE_SCRIPT.text(request(there)))
    assert _without_note(found) == _without_note(wanted)


def _without_note(tree: ast.Module) -> str:
    """The program, but for the one string that has words of the file."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NOTE":
            assert isinstance(node.value, ast.Constant)
            assert isinstance(node.value.value, str)
            node.value.value = ""
    return ast.dump(tree)


def test_what_a_script_cannot_show_is_said_in_it() -> None:
    for name, words in NOT_ON_A_CPU.items():
        assert words in " ".join(line.removeprefix("# ") for line in script_of(name).splitlines())


def test_a_planted_fault_and_our_own_kernels_are_not_in_a_script() -> None:
    repro = read_repro(CORPUS / "v2-accepted-race-temporal.json")
    for target, words in (
        ("vllm==0.33.0+wrong-group", "a fault planted"),
        ("builtin", "kernels of the harness itself"),
    ):
        origin = msgspec.structs.replace(repro.origin, target=target)
        assert any(words in line for line in limits(msgspec.structs.replace(repro, origin=origin)))
    assert limits(repro) == []


@pytest.mark.parametrize(
    ("oracle", "violation", "thing", "summary", "blind"),
    [
        ("memory", "wrong-bytes", "temporal", "bytes are wrong", False),
        ("race", "between-programs", "temporal", "two programs", False),
        ("race", "between-warps", "conv", "two warps", True),
        ("access", "out-of-bounds", "guard", "out-of-bounds 4-byte load at no object", True),
        ("access", "out-of-bounds", "guard", "out-of-bounds 4-byte store at no object", False),
        ("access", "misaligned", "temporal", "misaligned 8-byte store at group 0", True),
        ("access", "read-only", "table", "4-byte store into read-only block table", True),
        ("undefined", "address", "temporal", "an undefined number", True),
        ("host", "wrong-result", "device draft", "a staged view", True),
        ("host", "wrong-result", "columns", "a column", False),
    ],
)
def test_a_script_that_passes_whether_the_finding_is_there_or_not_says_so(
    oracle: str, violation: str, thing: str, summary: str, blind: bool
) -> None:
    repro = read_repro(CORPUS / "v2-accepted-race-temporal.json")
    signature = Signature("postprocess", oracle, violation, thing, "-")
    other = msgspec.structs.replace(repro, signature=signature, evidence=Evidence(summary))
    assert is_blind(other) is blind
    asked = request(other)
    assert ("blind=True" in export("byte-script", asked)) is blind
    function = export("pytest", asked)
    ast.parse(function)
    assert function.count("pytest.skip(") == 1 + blind


def test_an_operation_that_no_script_calls_is_refused() -> None:
    repro = read_repro(CORPUS / "v2-accepted-race-temporal.json")
    advance = Advance(rows=(AdvanceRow(slot=0, state_column=0, computed=1, query_length=1, accepted=1),))
    case: Case = msgspec.structs.replace(repro.case, program=(advance,))
    with pytest.raises(NotExportable, match="a script cannot call advance yet: it knows postprocess, "):
        script_case(case)


def test_a_file_of_another_kind_is_refused() -> None:
    repro = read_repro(CORPUS / "v2-accepted-race-temporal.json")
    wrong = Request("x", "sequence", repro, "vllm==0.33.0")
    with pytest.raises(NotExportable, match="x: byte-script is for kernel cases, and this file holds a step sequence"):
        export("byte-script", wrong)


def test_an_unknown_form_is_refused_with_what_there_is() -> None:
    repro = read_repro(CORPUS / "v2-accepted-race-temporal.json")
    with pytest.raises(NotExportable, match="unknown form 'byte-scrip'; did you mean 'byte-script'"):
        export("byte-scrip", request(repro))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with torch and triton, and without the harness."""
    return new_environment(tmp_path_factory.mktemp("environment"), ["torch", "triton", "numpy"])


def shown(python: Path, name: str, release: str, folder: Path) -> tuple[int, str]:
    script = folder / f"{name}.py"
    script.write_text(script_of(name), encoding="utf-8")
    done = run(python, script, "--vllm", sources(release))
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize("name", SHOWN)
def test_a_script_fails_on_an_affected_release_and_passes_on_a_fixed_one(
    name: str, python: Path, tmp_path: Path
) -> None:
    affected, fixed = SHOWN[name]
    status, text = shown(python, name, affected, tmp_path)
    assert (status, "WRONG: " in text) == (1, True), text
    status, text = shown(python, name, fixed, tmp_path)
    assert (status, "as expected" in text) == (0, True), text


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize("name", [name for name in NOT_ON_A_CPU if name.startswith("shift")])
def test_a_script_that_shows_nothing_says_why(name: str, python: Path, tmp_path: Path) -> None:
    status, text = shown(python, name, "0.28.0", tmp_path)
    assert status == 2
    assert "but: It is a race between warps" in text
    assert "so this pass says nothing of the finding (status 2)" in text


@pytest.mark.slow
@pytest.mark.release
def test_where_an_operation_is_missing_a_script_cannot_run(python: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(script_of("v2-accepted-race-temporal"), encoding="utf-8")
    done = run(python, script, "--vllm", sources("0.24.0"))
    assert done.returncode == 2
    assert done.stderr == "cannot run: this vLLM has no run_fused_postprocess_align\n"


@pytest.mark.slow
@pytest.mark.release
def test_scripts_find_nothing_wrong_in_a_release_without_faults() -> None:
    """Drawn cases of both domains: what the scripts' scalar code expects is what the kernels of 0.33.0 do."""
    here = Path(__file__).with_name("judge_drawn.py")
    done = subprocess.run(
        [sys.executable, "-P", here, sources("0.33.0"), "11", "60"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["wrong"] == {}
    assert sum(result["compared"].values()) >= 60
    assert len(result["compared"]) >= 4
