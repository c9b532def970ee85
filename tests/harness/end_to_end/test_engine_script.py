"""The script for a maintainer: complete, without the harness, and with the events of the sequence."""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.case.sequence import (
    CONTINUATION,
    Abort,
    Add,
    Finish,
    Layers,
    Pause,
    Reset,
    Resume,
    Segment,
    SequenceCase,
    Step,
)
from harness.case.sequence import SequenceConfig as Config
from harness.end_to_end.engine_script import engine_script
from harness.end_to_end.inside.models import checkpoint
from harness.end_to_end.kinds import KINDS
from harness.end_to_end.messages import ModelKind
from harness.end_to_end.spelling import FIRST_TOKEN, VOCABULARY, spelled
from harness.oracles.states.texts import Text

PROMPT = (Segment(family=0, length=3), Segment(family=CONTINUATION, length=4), Segment(family=1, length=2))

CASE = SequenceCase(
    config=Config(
        runner="V1",
        block_size=32,
        spec_method="ngram",
        num_spec=2,
        length_limit=128,
        budget=64,
        requests=2,
        num_blocks=64,
        vocabulary=64,
    ),
    events=(
        Add(request=1, prompt=PROMPT, outputs=5, priority=2),
        Step(drafts=(1,), right=(2, 0), repeat=3),
        Abort(request=1),
        Finish(request=1),
        Reset(running=True),
        Pause(mode="new"),
        Resume(),
    ),
)


@pytest.fixture
def script() -> str:
    return engine_script(CASE, "left-out-row: an engine of vLLM says wrong tokens")


def constants(script: str) -> dict[str, Any]:
    """OPTIONS and EVENTS of a script."""
    found = {}
    for node in ast.parse(script).body:
        name = getattr(getattr(node, "target", None), "id", None)
        if isinstance(node, ast.AnnAssign) and node.value is not None and name in ("OPTIONS", "EVENTS"):
            found[name] = ast.literal_eval(node.value)
    return found


def test_it_needs_nothing_of_the_harness(script: str) -> None:
    assert "#:" not in script
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]  # type: ignore[union-attr]
        for node in ast.walk(ast.parse(script))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported - set(sys.stdlib_module_names) == {"torch", "vllm", "safetensors", "msgspec"}


def test_it_has_all_events(script: str) -> None:
    events = constants(script)["EVENTS"]
    assert [event[0] for event in events] == ["add", "step", "abort", "finish", "reset", "pause", "resume"]
    assert events[1:] == [
        ("step", (1,), (2, 0), False, 3),
        ("abort", 1),
        ("finish", 1),
        ("reset", True),
        ("pause", "new", True),
        ("resume",),
    ]


def test_its_prompts_are_those_of_the_sequence(script: str) -> None:
    _, number, parts, outputs, priority = constants(script)["EVENTS"][0]
    assert (number, outputs, priority) == (1, 5, 2)
    whole = [spelled(token) for token in Text(PROMPT, 64).tokens]
    assert parts == [whole[:3], 4, whole[7:9]]


def test_its_options_are_those_of_the_sequence(script: str) -> None:
    options = constants(script)["OPTIONS"]
    assert {name: options[name] for name in ("budget", "num_spec", "num_blocks", "scripted_counts")} == {
        "budget": 64,
        "num_spec": 2,
        "num_blocks": 64,
        "scripted_counts": True,
    }


@pytest.mark.parametrize("layers", KINDS)
def test_its_parts_are_those_of_the_harness(layers: Layers, tmp_path: Path) -> None:
    """The script makes the same checkpoint, byte by byte, and has the functions that it puts in place."""
    pytest.importorskip("safetensors")
    case = msgspec.structs.replace(CASE, config=msgspec.structs.replace(CASE.config, layers=layers))
    module = types.ModuleType("script")
    sys.modules["script"] = module
    try:
        exec(compile(engine_script(case, "a title"), "script.py", "exec"), module.__dict__)
        getattr(module, KINDS[layers].write)(tmp_path / "script", 2, 7, False)
        assert all(callable(getattr(module, name)) for name in KINDS[layers].functions.values())
    finally:
        del sys.modules["script"]
    made = checkpoint(tmp_path, ModelKind(layers, 2), 7)
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "script" / name).read_bytes() == (made / name).read_bytes()


def test_spelling_keeps_tokens_apart() -> None:
    tokens = [spelled(token) for token in range(1, 65)]
    assert len(set(tokens)) == 64
    assert all(FIRST_TOKEN <= token < VOCABULARY for token in tokens)
