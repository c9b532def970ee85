"""Sequence cases, their generator, shrinking and files, without a scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from harness.case.problem import InvalidCase
from harness.case.sequence import Add, Segment, SequenceCase, SequenceConfig, Step, decode_sequence, encode_sequence
from harness.generators.draw import RandomDraw
from harness.generators.sequences.configurations import Pins
from harness.generators.sequences.events import draw_sequence
from harness.issues.registry import DEFAULT_FIXES, applicable
from harness.kernels.targets.vllm.scheduling import sources
from harness.refusal import UnknownTarget
from harness.sequences.controls import Controls
from harness.sequences.counters import THRESHOLDS, below_threshold
from harness.sequences.faults import FAULTS
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.shrink import driver
from harness.shrink.driver import Judged, Shrunk
from harness.shrink.sequences import SequenceShrinking


class Holding:
    """A plan that judges by a predicate of the sequence."""

    shrinking = SequenceShrinking()
    passes = shrinking.passes

    def __init__(self, holds: Callable[[SequenceCase], bool]) -> None:
        self._holds = holds

    def encode(self, case: SequenceCase) -> bytes:
        return encode_sequence(case)

    def size(self, case: SequenceCase) -> tuple[Any, ...]:
        return self.shrinking.size(case)

    def require_valid(self, case: SequenceCase) -> None:
        pass

    def judge(self, case: SequenceCase) -> Judged[None]:
        return Judged(None, same=self._holds(case))


def shrink_sequence(
    case: SequenceCase, holds: Callable[[SequenceCase], bool], budget: int
) -> Shrunk[SequenceCase, None]:
    """Shrink a sequence for which `holds` is true."""
    return driver.shrink(case, None, Holding(holds), budget)


def plain(**changes: object) -> SequenceConfig:
    fields = {"runner": "V1", "block_size": 4, "length_limit": 32, "budget": 32, "requests": 2, "num_blocks": 64}
    return SequenceConfig(**{**fields, **changes})  # type: ignore[arg-type]


def test_sequences_survive_their_file_form() -> None:
    for index in range(40):
        case = sequence_at(SequenceRecipe(3), index)
        assert decode_sequence(encode_sequence(case)) == case


def test_the_same_index_gives_the_same_sequence() -> None:
    assert sequence_at(SequenceRecipe(1), 7) == sequence_at(SequenceRecipe(1), 7)
    assert sequence_at(SequenceRecipe(1), 7) != sequence_at(SequenceRecipe(2), 7)


def test_pins_hold() -> None:
    pins = Pins(runner="V2", asynchronous=True, retention="dense", checkpoints=True, partial=False)
    for index in range(20):
        config = draw_sequence(RandomDraw(f"{index}"), pins, 10).config
        assert (config.runner, config.asynchronous, config.retention) == ("V2", True, None)
        assert config.checkpoint_alignment is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"num_spec": 4, "spec_method": "mtp"},
        {"num_spec": 1},
        {"retention": 3},
        {"match_unit": 3},
        {"num_blocks": 8},
        {"drafter_block_size": 2},
    ],
)
def test_contradictions_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidCase):
        plain(**changes)


def test_requests_are_added_once_and_fit() -> None:
    add = Add(request=0, prompt=(Segment(family=0, length=8),), outputs=2)
    with pytest.raises(InvalidCase, match="twice"):
        SequenceCase(config=plain(), events=(add, add))
    with pytest.raises(InvalidCase, match="longer"):
        SequenceCase(config=plain(), events=(msgspec.structs.replace(add, outputs=30),))


def test_shrinking_reaches_the_smallest_sequence() -> None:
    case = sequence_at(SequenceRecipe(5), 3)

    def holds(candidate: SequenceCase) -> bool:
        prompts = [sum(s.length for s in e.prompt) for e in candidate.events if isinstance(e, Add)]
        return max(prompts, default=0) >= 6 and candidate.steps >= 3

    assert holds(case)
    shrunk = shrink_sequence(case, holds, 5000)
    assert shrunk.complete
    assert len(shrunk.case.events) == 2
    add = next(event for event in shrunk.case.events if isinstance(event, Add))
    assert (sum(segment.length for segment in add.prompt), add.outputs) == (6, 1)
    assert next(event for event in shrunk.case.events if isinstance(event, Step)).repeat == 3


def test_options_are_removed_together_with_their_blocks() -> None:
    add = Add(request=0, prompt=(Segment(family=0, length=8),), outputs=2)
    config = plain(mamba_groups=3, spec_method="mtp", num_spec=3, num_blocks=36)
    assert config.num_blocks - config.blocks_for_one() == 1

    def holds(candidate: SequenceCase) -> bool:
        return candidate.config.num_blocks - candidate.config.blocks_for_one() <= 1 and len(candidate.events) == 2

    shrunk = shrink_sequence(SequenceCase(config=config, events=(add, Step())), holds, 5000).case.config
    assert (shrunk.mamba_groups, shrunk.num_spec, shrunk.num_blocks) == (1, 0, shrunk.blocks_for_one())


def test_requests_that_can_be_one_are_merged() -> None:
    adds = [Add(request=i, prompt=(Segment(family=0, length=8),), outputs=(9, 2)[i]) for i in range(2)]
    case = SequenceCase(config=plain(), events=(adds[0], Step(), adds[1]))

    def holds(candidate: SequenceCase) -> bool:
        kept = [event for event in candidate.events if isinstance(event, Add)]
        return any(add.request == 0 for add in kept) and any(add.outputs == 2 for add in kept)

    events = shrink_sequence(case, holds, 5000).case.events
    assert len(events) == 1


def test_controls_know_their_names() -> None:
    Controls(faults=tuple(FAULTS), fixes=DEFAULT_FIXES)
    with pytest.raises(InvalidCase, match="unknown fix"):
        Controls(fixes=("nothing",))


def test_counters_that_are_too_low_are_named() -> None:
    assert below_threshold({}, 100, True) == []
    missing = below_threshold({}, 10_000, True)
    assert len(missing) == len(THRESHOLDS)
    assert len(below_threshold({}, 10_000, False)) < len(missing)


def test_missing_packages_are_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "REQUIRED", ("json", "no_such_package_a", "no_such_package_b"))
    with pytest.raises(
        UnknownTarget, match=r"no_such_package_a, no_such_package_b: install the extra .*pip install"
    ) as e:
        sources.require_packages()
    assert "\n" not in str(e.value)


def test_a_release_that_is_too_old_is_refused_before_anything_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "release", lambda *_: pytest.fail("downloaded"))
    with pytest.raises(UnknownTarget, match=r"vllm==0\.24\.0 is too old: .* from 0\.25\.0 on"):
        sources.whole_tree("vllm==0.24.0")


def test_fixes_are_applied_only_to_sequences_that_can_reach_their_issue() -> None:
    plainest = SequenceCase(config=plain(), events=(Step(),))
    assert applicable(DEFAULT_FIXES, plainest) == ()
    partial = SequenceCase(config=plain(match_unit=2), events=(Step(),))
    assert "copy-of-fresh-block" in applicable(DEFAULT_FIXES, partial)
    assert applicable(("checkpoint-mid-block",), partial) == ()
