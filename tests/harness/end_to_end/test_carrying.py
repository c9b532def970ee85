"""Carrying sequences over to an engine's blocks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.case.sequence import CONTINUATION, Add, Segment, SequenceCase, SequenceConfig, Step
from harness.end_to_end.carrying import (
    BLOCK,
    MOST_PROBES,
    READER,
    READERS_LATER,
    RULES,
    CannotCarry,
    carried,
    is_probe,
    with_readers,
)
from harness.end_to_end.messages import EngineFacts
from harness.repro import SequenceRepro, read_any

CORPUS = Path(__file__).resolve().parents[3] / "corpus" / "sequences"

FACTS = EngineFacts(
    version="1",
    groups=(("mamba", BLOCK), ("mamba", BLOCK), ("attention", BLOCK)),
    num_blocks=64,
    checkpoint_alignment=1,
    window=4,
    retention=0,
    runner="CPUModelRunner",
)


NO_ENGINE = {
    **dict.fromkeys(("column-of-smallest-blocks", "split-block-size", "untruncated-hit"), "drafter"),
    "untruncated-hit-overwrites": "drafter",
    **dict.fromkeys(
        (
            "reset-with-session",
            *(f"streamed-session{form}" for form in ("", "-column", "-cut-off", "-no-drafts", "-synchronous", "-v1")),
        ),
        "streaming input",
    ),
}
"""Files of the corpus that ask for what no engine here has."""


def sequence(**changes: object) -> SequenceCase:
    fields: dict[str, object] = {
        "runner": "V1",
        "block_size": 8,
        "spec_method": "mtp",
        "num_spec": 2,
        "length_limit": 64,
        "budget": 9,
        "requests": 2,
        "num_blocks": 40,
    }
    config = SequenceConfig(**{**fields, **changes})  # type: ignore[arg-type]
    add = Add(request=3, prompt=(Segment(family=0, length=6), Segment(family=1, length=11)), outputs=3)
    return SequenceCase(config=config, events=(add, Step(repeat=4, right=(1,))))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("small", [4, 6, 8, 12, 16])
def test_rules_keep_borders_and_order(rule: object, small: int) -> None:
    assert callable(rule)
    places = [rule(length, small, BLOCK) for length in range(4 * small + 1)]
    assert places[::small] == [0, BLOCK, 2 * BLOCK, 3 * BLOCK, 4 * BLOCK]
    assert places == sorted(places)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_change_nothing_where_blocks_are_as_large(rule: object) -> None:
    assert callable(rule)
    assert [rule(length, BLOCK, BLOCK) for length in range(100)] == list(range(100))


def test_forms_are_what_an_engine_is() -> None:
    forms = list(carried(sequence(), FACTS))
    assert len({msgspec.json.encode(form.case) for form in forms}) == len(forms) > 4
    for form in forms:
        config = form.case.config
        assert (config.runner, config.block_size, config.num_spec) == ("V1", BLOCK, 2)
        assert (config.mamba_groups, config.checkpoint_alignment, config.requests) == (2, 1, 2)
        assert config.num_blocks - config.blocks_for_one() >= 0


@pytest.mark.parametrize(
    ("method", "asynchronous", "modes"),
    [
        ("none", False, [(False, "none")]),
        ("none", True, [(True, "none"), (False, "none")]),
        ("mtp", True, [(True, "mtp"), (False, "mtp"), (False, "ngram")]),
        ("draft_model", False, [(False, "draft_model"), (False, "ngram")]),
        ("dflash", True, [(True, "mtp"), (False, "mtp"), (False, "ngram")]),
        ("ngram", False, [(False, "ngram"), (False, "mtp")]),
    ],
)
def test_engines_are_as_the_sequence_is_first(method: str, asynchronous: bool, modes: list[object]) -> None:
    num_spec = 0 if method == "none" else 2
    forms = carried(sequence(spec_method=method, asynchronous=asynchronous, num_spec=num_spec), FACTS)
    found = [(form.case.config.asynchronous, form.case.config.spec_method) for form in forms]
    assert list(dict.fromkeys(found)) == modes


def test_a_tight_pool_stays_tight() -> None:
    case = sequence(num_blocks=sequence().config.blocks_for_one() + 2)
    for form in carried(case, FACTS):
        assert form.case.config.num_blocks == form.case.config.blocks_for_one() + 2


def test_segments_end_where_they_ended() -> None:
    first = next(carried(sequence(), FACTS)).case
    add = next(event for event in first.events if isinstance(event, Add) and event.request == 3)
    # 6 is two tokens before a border, 17 one token behind one, 20 in the middle of a block of 8
    assert add.prompt[0].length == BLOCK - 2
    assert sum(part.length for part in add.prompt) == 2 * BLOCK + 1


def test_probes_ask_for_the_text_and_for_every_block_of_it() -> None:
    first = next(carried(sequence(), FACTS)).case
    add = next(event for event in first.events if isinstance(event, Add))
    probes = [event for event in first.events if isinstance(event, Add) and is_probe(event.request)]
    assert 1 < len(probes) <= MOST_PROBES
    assert probes[0].prompt == (*add.prompt, Segment(family=CONTINUATION, length=add.outputs))
    for number, probe in enumerate(probes[1:], 1):
        assert sum(part.length for part in probe.prompt[:-1]) == number * BLOCK
        assert probe.prompt[-1].family not in (0, 1, CONTINUATION)


def test_readers_arrive_when_the_entry_is_there() -> None:
    form = next(carried(sequence(), FACTS))
    readers = list(with_readers(form, 3))
    assert len(readers) > 4
    for reader in readers:
        events = reader.case.events
        place = next(i for i, event in enumerate(events) if isinstance(event, Add) and event.request == READER)
        steps = sum(event.repeat for event in events[:place] if isinstance(event, Step))
        assert 3 <= steps < 3 + READERS_LATER
        assert is_probe(READER)
        added = next(event for event in events if isinstance(event, Add))
        read = events[place]
        assert isinstance(read, Add)
        assert read.prompt[: len(added.prompt)] == added.prompt


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"drafter_block_size": 4}, "drafter"),
        ({"layers": "kda"}, "kda"),
    ],
)
def test_what_no_engine_has_is_named(change: dict[str, object], word: str) -> None:
    with pytest.raises(CannotCarry, match=word):
        next(carried(sequence(**change), FACTS))


def test_checkpoints_need_layers_that_export_them() -> None:
    facts = msgspec.structs.replace(FACTS, checkpoint_alignment=None)
    with pytest.raises(CannotCarry, match="checkpoints"):
        next(carried(sequence(checkpoint_alignment=1), facts))


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.json")), ids=lambda file: str(file.stem))
def test_every_file_of_the_corpus_is_carried_or_says_why_not(file: Path) -> None:
    _, repro = read_any(file)
    assert isinstance(repro, SequenceRepro)
    if file.stem in NO_ENGINE:
        with pytest.raises(CannotCarry, match=NO_ENGINE[file.stem]):
            next(carried(repro.sequence, FACTS))
    else:
        assert list(carried(repro.sequence, FACTS))
