"""Streaming input: sequences with resumable requests, from their data to a release's own scheduler."""

from __future__ import annotations

import msgspec
import pytest

from harness.case.problem import InvalidCase
from harness.case.production_defaults import ProductionDefaults
from harness.case.sequence import (
    CONTINUATION,
    Add,
    Event,
    Finish,
    Input,
    Pause,
    Reset,
    Segment,
    SequenceCase,
    SequenceConfig,
    Step,
    decode_sequence,
)
from harness.generators.draw import RandomDraw
from harness.generators.sequences.events import draw_sequence
from harness.issues.registry import DEFAULT_FIXES, applicable
from harness.sequences.controls import Controls
from harness.sequences.worker import SequenceWorker
from harness.shrink.sequences import simpler_events
from tests.harness.sequences.test_production_defaults import DEFAULTS

CHUNK = Input(request=0, prompt=(Segment(family=1, length=3),), outputs=2)


def config(**changes: object) -> SequenceConfig:
    fields: dict[str, object] = {
        "runner": "V2",
        "layers": "gated-delta-net",
        "block_size": 8,
        "length_limit": 64,
        "budget": 64,
        "requests": 2,
        "num_blocks": 64,
    }
    return SequenceConfig(**{**fields, **changes})  # type: ignore[arg-type]


def case(*events: Event, **changes: object) -> SequenceCase:
    return SequenceCase(config=config(**changes), events=events)


def add(outputs: int = 2, length: int = 4) -> Add:
    return Add(request=0, prompt=(Segment(family=0, length=length),), outputs=outputs, resumable=True)


def test_older_files_have_no_sessions() -> None:
    old = case(Add(request=0, prompt=(Segment(family=0, length=4),), outputs=2))
    fields = msgspec.to_builtins(old)
    del fields["events"][0]["resumable"]
    assert decode_sequence(msgspec.json.encode(fields)) == old
    assert not old.streams


def test_a_session_fits_with_all_its_input() -> None:
    assert case(add(length=54), CHUNK).streams
    with pytest.raises(InvalidCase, match="longer than 64"):
        case(add(length=58), CHUNK)
    with pytest.raises(InvalidCase, match="cannot continue"):
        Input(request=0, prompt=(Segment(family=CONTINUATION, length=1),))


def test_input_of_no_request_is_valid() -> None:
    """Shrinking leaves out any event."""
    assert case(CHUNK, Step()).steps == 1


def drawn(defaults: ProductionDefaults) -> list[SequenceCase]:
    return [draw_sequence(RandomDraw(f"{seed}"), None, 40, defaults) for seed in range(120)]


def test_sessions_are_drawn_for_releases_that_keep_their_tokens() -> None:
    assert not any(one.streams for one in drawn(DEFAULTS))
    found = [one for one in drawn(msgspec.structs.replace(DEFAULTS, streams=True)) if one.streams]
    assert 5 <= len(found) <= 40
    chunks = [event for one in found for event in one.events if isinstance(event, Input)]
    assert any(chunk.closes for chunk in chunks)
    assert any(not chunk.closes for chunk in chunks)


def test_shrinking_makes_sessions_plain_and_chunks_short() -> None:
    found = [proposal() for proposal in simpler_events(case(add(), CHUNK))]
    assert any(not one.streams for one in found)
    lengths = {event.prompt[0].length for one in found for event in one.events if isinstance(event, Input)}
    assert 1 in lengths


def test_fixes_of_sessions_apply_to_sessions_alone() -> None:
    names = ("streamed-session", "reset-with-session")
    plain = case(
        Add(request=0, prompt=(Segment(family=0, length=4),), outputs=2), Reset(running=True), asynchronous=True
    )
    assert applicable(names, plain) == ()
    assert applicable(names, case(add(), asynchronous=True)) == names[:1]
    assert applicable(names, case(add(), Pause(mode="keep"))) == names[1:]
    assert applicable(names, case(add(), Pause(mode="keep", clear_cache=False))) == ()


@pytest.mark.release
@pytest.mark.long
@pytest.mark.parametrize("runner", ["V1", "V2"])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("num_spec", [0, 3])
def test_a_session_has_turns_until_its_input_is_closed(
    scheduler: SequenceWorker, runner: str, asynchronous: bool, num_spec: int
) -> None:
    """A chunk that comes while the session waits, one that is queued, and a turn that ends with the stop token."""
    events = (
        add(outputs=5),
        Step(repeat=8),
        CHUNK,
        msgspec.structs.replace(CHUNK, outputs=12),
        Step(repeat=4),
        Finish(request=0),
        Input(request=0),
        Step(repeat=12),
        CHUNK,
        Step(repeat=2),
    )
    drafts = {"num_spec": num_spec, "spec_method": "mtp" if num_spec else "none"}
    sequence = case(*events, runner=runner, asynchronous=asynchronous, **drafts)
    result = scheduler.check(sequence, Controls(fixes=DEFAULT_FIXES))
    assert result.violation is None
    assert result.skipped is None
    assert result.host_code_lacks is None
    assert result.counters["sessions"] == 1
    assert result.counters["chunks of input"] == result.counters["turns"] == 2


@pytest.mark.release
@pytest.mark.long
@pytest.mark.parametrize("fixes", [DEFAULT_FIXES, ()], ids=["fixes", "no fixes"])
def test_a_block_is_registered_in_the_call_that_starts_the_next_turn(
    scheduler: SequenceWorker, fixes: tuple[str, ...]
) -> None:
    """Its hash is gone from the request before the call returns, but not from the prefix cache."""
    layout = {"mamba_groups": 2, "retention": 24, "checkpoint_alignment": 8, "kernel": 3}
    sizes = {
        "length_limit": 33,
        "budget": 16,
        "prefill_threshold": 16,
        "requests": 5,
        "num_blocks": 54,
        "vocabulary": 4,
    }
    sequence = case(
        add(outputs=8, length=17),
        msgspec.structs.replace(CHUNK, prompt=(Segment(family=1, length=2),)),
        Step(drafts=(), right=(4, 1, 5), repeat=5),
        spec_method="mtp",
        num_spec=5,
        **layout,
        **sizes,
    )
    result = scheduler.check(sequence, Controls(fixes=fixes))
    assert result.skipped is None
    assert result.counters["turns"] == 1
    assert result.counters["cache entries checked"] > 0
    assert result.violation is None or not fixes
