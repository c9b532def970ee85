"""A whole engine, where an environment with a CPU build is in the user's cache (`harness engine fetch`)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.case.sequence import Add, Finish, Layers, Segment, SequenceCase, SequenceConfig, Step
from harness.end_to_end.agreeing import Agreeing
from harness.end_to_end.builds import build_of
from harness.end_to_end.confirming import Confirmation, Confirmer, differences
from harness.end_to_end.engine_process import EngineProcess
from harness.end_to_end.engine_script import engine_script
from harness.end_to_end.environments import environments
from harness.end_to_end.kinds import KINDS
from harness.end_to_end.messages import ModelKind, RunSequence, SequenceAnswer
from harness.generators.sequences.configurations import Pins
from harness.repro import SequenceRepro, read_any
from harness.sequences.recipe import SequenceRecipe
from harness.sequences.worker import SequenceWorker

CORPUS = Path(__file__).resolve().parents[3] / "corpus" / "sequences"

pytestmark = [pytest.mark.slow, pytest.mark.release]


@pytest.fixture(scope="module", params=["vllm==0.32.0", "vllm==0.33.0"])
def target(request: pytest.FixtureRequest) -> str:
    if all(one.manifest.version != "0.32.0" for one in environments()):
        pytest.skip("no environment with a CPU build of 0.32.0: `harness engine fetch 0.32.0` makes one")
    return str(request.param)


@pytest.fixture(scope="module")
def engine(target: str) -> Iterator[EngineProcess]:
    with EngineProcess(build_of(target, lambda text: None)) as process:
        process.wait_ready()
        yield process


def sequence(**changes: object) -> SequenceCase:
    """Four requests that share prefixes, with drafts right and wrong; nothing is wrong with it."""
    fields: dict[str, object] = {
        "runner": "V1",
        "block_size": 32,
        "mamba_groups": 2,
        "spec_method": "ngram",
        "num_spec": 2,
        "retention": 0,
        "checkpoint_alignment": 1,
        "length_limit": 256,
        "budget": 256,
        "requests": 4,
        "num_blocks": 128,
        "vocabulary": 64,
    }
    config = SequenceConfig(**{**fields, **changes})  # type: ignore[arg-type]
    adds = [
        Add(request=number, prompt=(Segment(family=0, length=40), Segment(family=number, length=9)), outputs=40)
        for number in range(3)
    ]
    again = Add(request=9, prompt=(Segment(family=0, length=40), Segment(family=5, length=3)), outputs=12)
    steps = Step(right=(2, 1, 0), repeat=50)
    return SequenceCase(config=config, events=(*adds, steps, again, Step(repeat=3), Finish(request=9), steps))


def run(engine: EngineProcess, case: SequenceCase) -> SequenceAnswer:
    answer = engine.run(RunSequence(sequence=case))
    assert answer.refused is None
    assert answer.raised is None
    return answer


LAYERS: dict[str, dict[str, object]] = {
    "mamba2": {"layers": "mamba2"},
    "gated-delta-net": {"layers": "gated-delta-net", "checkpoint_alignment": None},
}


@pytest.mark.parametrize("layers", LAYERS)
def test_a_sound_sequence_says_the_tokens_of_the_plain_run(engine: EngineProcess, layers: str) -> None:
    answer = run(engine, sequence(**LAYERS[layers]))
    assert differences(answer) == ([], 0)
    assert [len(one.said) for one in answer.requests[:3]] == [40, 40, 40]
    assert 3 <= len(answer.requests[3].said) < 12  # it was ended by the token that the sequence chose
    assert answer.kernel_launches > 20
    assert answer.kernel_faults == []
    assert any("postprocess_mamba_fused_kernel" in line for line in answer.replaced)
    assert any(drafts for step in answer.scheduled for _, _, drafts in step)


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("method", ["mtp", "eagle", "draft_model"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_engines_schedule_and_draft_as_the_sequence_does(
    engine: EngineProcess, layers: str, method: str, asynchronous: bool
) -> None:
    answer = run(engine, sequence(**LAYERS[layers], spec_method=method, asynchronous=asynchronous))
    assert differences(answer) == ([], 0)
    assert [len(one.said) for one in answer.requests[:3]] == [40, 40, 40]
    assert any(drafts for step in answer.scheduled for _, _, drafts in step)


def test_engines_do_what_symbolic_runs_do(engine: EngineProcess, target: str) -> None:
    with SequenceWorker(target) as symbolic:
        symbolic.wait_ready()
        agreeing = Agreeing(engine, symbolic, SequenceRecipe(1, Pins(runner="V1", block_size=32)))
        assert [one for one in agreeing.run(0, 8) if not one.agrees] == []
        assert agreeing.compared.steps > 100
        assert agreeing.compared.accepted > 20
        # Here a step in flight accepts drafts of a request that has ended, and another row gets the count.
        assert [one.difference for one in agreeing.run(82, 1)] == [None]
        # Here the state of a fresh row that is padded with drafts lies where keys and values were.
        assert [one.agrees for one in agreeing.run(174, 1)] == [True]


@pytest.mark.parametrize("layers", KINDS)
def test_every_kind_of_damage_is_noticed(engine: EngineProcess, layers: Layers) -> None:
    found = engine.sensitivity(ModelKind(layers, 3), tries=20)
    assert len(found.noticed) == 7
    assert min(found.noticed.values()) >= 19


@pytest.mark.parametrize("fault", ["wrong-group", "wrong-destination", "conv-shift-off-by-one"])
def test_a_fault_in_the_releases_own_kernels_changes_tokens(target: str, fault: str) -> None:
    with EngineProcess(build_of(target, lambda text: None), faults=(fault,)) as engine:
        engine.wait_ready()
        assert differences(run(engine, sequence()))[0]


def test_an_access_outside_of_the_engines_memory_is_reported(target: str) -> None:
    with EngineProcess(build_of(target, lambda text: None), faults=("stale-cell",)) as engine:
        engine.wait_ready()
        answer = run(engine, sequence())
        assert answer.kernel_faults or differences(answer)[0]


def confirm(engine: EngineProcess, target: str, file: str) -> Confirmation:
    _, repro = read_any(CORPUS / file)
    assert isinstance(repro, SequenceRepro)
    with SequenceWorker(target) as symbolic:
        symbolic.wait_ready()
        return Confirmer(target, build_of(target, lambda text: None), engine, symbolic, lambda how: None).confirm(repro)


KNOWN = (
    "left-out-row",
    "checkpoint-into-running-block",
    "tail-behind-extend",
    "async-accepted-counts",
    "drained-queue",
)


@pytest.mark.parametrize("name", KNOWN)
def test_known_issues_are_confirmed(engine: EngineProcess, target: str, name: str) -> None:
    answer = confirm(engine, target, f"{name}.json")
    assert answer.answer == "CONFIRMED"
    assert answer.as_predicted
    assert answer.wrong


@pytest.mark.parametrize("name", ["left-out-row", "drained-queue"])
def test_the_script_shows_it_without_the_harness(engine: EngineProcess, target: str, tmp_path: Path, name: str) -> None:
    answer = confirm(engine, target, f"{name}.json")
    assert answer.carried is not None
    script = tmp_path / "script.py"
    script.write_text(engine_script(answer.carried, name), encoding="utf-8")
    build = build_of(target, lambda text: None)
    path = ":".join(str(folder) for folder in build.path[:-1])  # without the folder with the harness
    result = subprocess.run(
        [str(build.python), str(script)],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "HOME": str(tmp_path)},
        check=False,
    )
    assert result.returncode == 1, result.stderr[-2000:]
    first = answer.wrong[0]
    assert f"request {first.request}: DIFFERENT from output {first.output} on" in result.stdout
