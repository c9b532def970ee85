"""Production's defaults: what is drawn, shrunk towards and said of findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from harness.case.production_defaults import (
    DeclaredLayers,
    ProductionDefaults,
    deviations,
    settings_in_words,
)
from harness.case.sequence import (
    Abort,
    Add,
    Pause,
    Resume,
    Segment,
    SequenceCase,
    SequenceConfig,
    Step,
    encode_sequence,
)
from harness.generators.sequences.configurations import Pins
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.sequences.controls import Controls
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.variations import variations
from harness.sequences.worker import SequenceWorker, defaults_of
from harness.shrink import driver
from harness.shrink.driver import Judged, Shrunk
from harness.shrink.sequences import SequenceShrinking
from tests.releases import with_scheduler

METHODS = ["none", "draft_model", "mtp", "eagle", "dflash"]
DEFAULTS = ProductionDefaults(
    retention=0,
    match_unit=None,
    shared_prefix_checkpoint=False,
    policy="fcfs",
    prefill_threshold=0,
    runners={"ngram": "V1", **dict.fromkeys(METHODS, "V2")},  # type: ignore[dict-item]
    methods={"V1": ["ngram", *METHODS], "V2": METHODS},
    asynchronous={"V1": METHODS, "V2": METHODS},
    layers=(
        DeclaredLayers("mamba2", 1),
        DeclaredLayers("gated-delta-net", None),
        DeclaredLayers("gated-delta-net", "grid"),
        DeclaredLayers("kda", 16),
    ),
)
"""Of a release in which ngram drafts run on V1 alone, and layers of Mamba2 always export checkpoints."""


def config(**changes: object) -> SequenceConfig:
    fields: dict[str, Any] = {
        "runner": "V2",
        "layers": "mamba2",
        "asynchronous": True,
        "block_size": 8,
        "spec_method": "mtp",
        "num_spec": 2,
        "retention": 0,
        "checkpoint_alignment": 1,
        "length_limit": 64,
        "budget": 64,
        "requests": 2,
        "num_blocks": 128,
    }
    return SequenceConfig(**{**fields, **changes})


def case(*events: Any, **changes: object) -> SequenceCase:
    first = Add(request=0, prompt=(Segment(family=0, length=9),), outputs=4)
    return SequenceCase(config=config(**changes), events=(first, *events, Step()))


def test_a_case_at_default_options_says_so_first() -> None:
    assert deviations(case(), DEFAULTS) == ()
    assert settings_in_words(case(), ()) == "at default options, with speculative decoding (mtp, 2)"
    assert settings_in_words(case(spec_method="none", num_spec=0), ()) == "at default options"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"runner": "V1"}, "the V1 runner (default V2)"),
        ({"asynchronous": False}, "synchronous scheduling (default asynchronous)"),
        ({"retention": None}, "prefix_cache_retention_interval None (default 0)"),
        ({"match_unit": 4}, "prefix_match_unit 4 (default None)"),
        ({"policy": "priority"}, "scheduling policy priority (default fcfs)"),
        ({"prefill_threshold": 8}, "long_prefill_token_threshold 8 (default 0)"),
        ({"checkpoint_alignment": None}, "no checkpoints inside a prefill, which no layer of this kind declares"),
        (
            {"layers": "kda", "checkpoint_alignment": 8},
            "checkpoints inside a prefill at multiples of 8 tokens, which no layer of this kind declares",
        ),
        (
            {"spec_method": "eagle", "drafter_block_size": 4, "match_unit": None},
            "blocks of 4 tokens for the drafter (8 for the model)",
        ),
    ],
)
def test_a_setting_that_differs_is_named(changes: dict[str, object], words: str) -> None:
    assert deviations(case(**changes), DEFAULTS) == (words,)


def test_a_method_that_a_runner_does_not_take_is_named() -> None:
    found = deviations(case(spec_method="ngram", asynchronous=False), DEFAULTS)
    assert found == ("the V2 runner (default V1)", "ngram on the V2 runner, which the release refuses")


@pytest.mark.parametrize(
    ("pause", "keeps"),
    [
        (Pause(mode="all"), True),
        (Pause(mode="new"), True),
        (Pause(mode="keep"), False),
        (Pause(mode="keep", clear_cache=False), True),
        (Pause(mode="wait", level=0), True),
        (Pause(mode="wait", level=1, clear_cache=False), False),
    ],
)
def test_a_pause_clears_the_caches_by_default(pause: Pause, keeps: bool) -> None:
    found = deviations(case(pause, Resume()), DEFAULTS)
    assert found == (("a pause that keeps the caches (clear_cache=False)",) if keeps else ())


def test_checkpoints_are_those_of_layers_of_the_release() -> None:
    for fits in (
        config(layers="gated-delta-net", checkpoint_alignment=None),
        config(layers="gated-delta-net", checkpoint_alignment=8),
        config(layers="kda", checkpoint_alignment=16, block_size=32, length_limit=128, num_blocks=256, budget=128),
        config(layers=None),
    ):
        assert deviations(SequenceCase(config=fits, events=()), DEFAULTS) == ()
    # A file that is older than the option has rows of Mamba2 on V1.
    old = case(layers=None, runner="V1", checkpoint_alignment=None)
    assert "no checkpoints inside a prefill, which no layer of this kind declares" in deviations(old, DEFAULTS)


@pytest.mark.parametrize("pins", [Pins(), Pins(checkpoints=True), Pins(block_size=4), Pins(spec_method="ngram")])
def test_only_settings_that_a_user_can_have_are_drawn(pins: Pins) -> None:
    drawn = [sequence_at(SequenceRecipe(1, pins, 4, DEFAULTS), index) for index in range(400)]
    assert (
        not [text for one in drawn for text in deviations(one, DEFAULTS) if "no layer" in text or "refuses" in text]
        or pins.spec_method == "ngram"
    )
    for one in drawn:
        allowed = DEFAULTS.asynchronous[one.config.runner]
        assert not one.config.asynchronous or one.config.spec_method in allowed
    if pins == Pins():
        assert sum(not deviations(one, DEFAULTS) for one in drawn) > len(drawn) // 4
        kinds = {(one.config.layers, one.config.checkpoint_alignment is not None) for one in drawn}
        assert kinds == {("mamba2", True), ("gated-delta-net", False), ("gated-delta-net", True), ("kda", True)}


def test_any_settings_are_drawn_on_request() -> None:
    drawn = [sequence_at(SequenceRecipe(1, Pins(layers="any"), 4, DEFAULTS), index) for index in range(100)]
    assert {one.config.layers for one in drawn} == {None}


class Holding:
    """A plan that judges by a predicate of the sequence."""

    def __init__(self, holds: Callable[[SequenceCase], bool]) -> None:
        self._holds, self._shrinking = holds, SequenceShrinking(DEFAULTS)
        self.passes = self._shrinking.passes

    def encode(self, case: SequenceCase) -> bytes:
        return encode_sequence(case)

    def size(self, case: SequenceCase) -> tuple[Any, ...]:
        return self._shrinking.size(case)

    def require_valid(self, case: SequenceCase) -> None:
        pass

    def judge(self, case: SequenceCase) -> Judged[None]:
        return Judged(None, same=self._holds(case))


def shrunk(start: SequenceCase, holds: Callable[[SequenceCase], bool]) -> Shrunk[SequenceCase, None]:
    return driver.shrink(start, None, Holding(holds), 2000)


@pytest.mark.parametrize("index", range(6))
def test_a_finding_that_needs_no_option_shrinks_to_the_defaults(index: int) -> None:
    start = sequence_at(SequenceRecipe(7, Pins(layers="any")), index)
    found = shrunk(start, lambda one: any(isinstance(event, Step) for event in one.events))
    assert deviations(found.case, DEFAULTS) == ()
    assert len(found.case.events) == 1


def test_a_finding_keeps_the_setting_that_it_needs() -> None:
    start = case(
        Pause(mode="keep", clear_cache=False), Step(repeat=3), runner="V1", retention=None, prefill_threshold=8
    )
    found = shrunk(start, lambda one: one.config.runner == "V1" and one.config.prefill_threshold == 8)
    assert deviations(found.case, DEFAULTS) == (
        "the V1 runner (default V2)",
        "long_prefill_token_threshold 8 (default 0)",
    )


def test_a_default_pause_is_simpler_than_one_that_keeps_the_caches() -> None:
    start = case(Pause(mode="all"), Step(repeat=3))
    found = shrunk(start, lambda one: any(isinstance(event, Pause) for event in one.events))
    (event,) = found.case.events
    assert isinstance(event, Pause)
    assert event.clears
    assert event.level is None


def test_variations_come_closer_to_the_defaults_first() -> None:
    start = case(runner="V1", asynchronous=False, retention=None, checkpoint_alignment=None, layers=None)
    found = variations(start, DEFAULTS)
    counts = [len(deviations(one, DEFAULTS)) for _, one in found]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert {one.config.spec_method for _, one in found} >= {"ngram", "draft_model", "eagle", "dflash", "mtp"}
    assert all(one.events == start.events for _, one in found)
    words = [text for text, _ in found]
    assert "spec_method ngram" in words
    assert len(set(words)) == len(words)


# By the code of releases.


@pytest.mark.release
@pytest.mark.long
def test_the_newest_release_says_what_its_defaults_are(scheduler: SequenceWorker) -> None:
    found = defaults_of(scheduler).defaults
    assert found is not None
    assert set(found.runners.values()) == {"V2"}
    assert "ngram" not in found.asynchronous["V1"]
    assert "ngram" in found.asynchronous["V2"]
    assert (found.retention, found.match_unit, found.policy) == (0, None, "fcfs")
    assert [one.checkpoints for one in found.layers if one.layers == "mamba2"] == [1]
    assert all(one.caches_by_default for one in found.layers)


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize("release", [release for release in RELEASES if release >= "0.25"])
def test_defaults_of_all_releases(release: str) -> None:
    """The facts that claims about releases rest on."""
    number = tuple(map(int, release.split(".")))
    with SequenceWorker(with_scheduler(f"vllm=={release}")) as worker:
        found = defaults_of(worker).defaults
    assert found is not None
    assert found.runners["mtp"] == ("V2" if number >= (0, 29) else "V1")
    assert found.runners["draft_model"] == ("V2" if number >= (0, 31) else "V1")
    assert found.runners["ngram"] == ("V2" if number >= (0, 32) else "V1")
    assert found.retention == (0 if number >= (0, 29) else None)
    assert ("draft_model" in found.asynchronous["V1"]) == (number >= (0, 28))
    caches = {one.layers for one in found.layers if one.caches_by_default}
    assert ("gated-delta-net" in caches) == (number >= (0, 26))
    assert ("mamba2" in caches) == (number >= (0, 28))
    assert {one.checkpoints for one in found.layers if one.layers == "mamba2"} == {1 if number >= (0, 32) else None}
    assert any(one == DeclaredLayers("kda", 16) for one in found.layers) == (number >= (0, 30))


def left_out_by(pause: Pause) -> SequenceCase:
    """Two requests decode on V1, which is paused; one is aborted meanwhile."""
    prompts = [Add(request=i, prompt=(Segment(family=i, length=3),), outputs=20) for i in (0, 1)]
    events = (*prompts, Step(repeat=2), pause, Abort(request=1), Step(), Resume())
    settings = config(runner="V1", asynchronous=False, budget=2048, length_limit=256, num_blocks=512)
    return SequenceCase(config=settings, events=(*events, Step(repeat=2)))


@pytest.mark.release
@pytest.mark.long
@pytest.mark.parametrize(
    ("pause", "fails"),
    [
        (Pause(mode="all"), True),
        (Pause(mode="keep", clear_cache=False), True),
        (Pause(mode="keep", level=0), True),
        (Pause(mode="keep"), False),
        (Pause(mode="keep", level=1), False),
        (Pause(mode="wait"), False),
        (Pause(mode="abort"), False),
    ],
)
def test_a_pause_that_clears_the_caches_guards_the_rows_that_it_left_out(
    scheduler: SequenceWorker, pause: Pause, fails: bool
) -> None:
    result = scheduler.check(left_out_by(pause), Controls())
    assert result.skipped is None
    assert (result.violation is not None) is fails
    if fails:
        assert result.settings is not None
        assert "a pause that keeps the caches (clear_cache=False)" in result.settings


def test_a_variation_gets_the_blocks_that_it_needs() -> None:
    """Checkpoints and a drafter take blocks: a pool that is tight for the file is too small for it."""
    tight = msgspec.structs.replace(config(layers=None, num_spec=1), num_blocks=config(num_spec=1).blocks_for_one())
    found = variations(SequenceCase(config=tight, events=case().events), DEFAULTS)
    assert any(one.config.num_blocks > tight.num_blocks for _, one in found)
    assert all(one.config.num_blocks >= one.config.blocks_for_one() for _, one in found)
