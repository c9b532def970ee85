"""An offer is a kind of engine that can run here: the axes of step sequences that are held for it. OFFERS has all.

What campaigns draw, and what they refuse, follows from this one list.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from harness.case.problem import InvalidCase
from harness.case.sequence import SequenceCase, SequenceConfig, SpecMethod
from harness.generators.sequences.configurations import LayersPin, Pins


class Offer(NamedTuple):
    """`pins` are held, all of them fields of a configuration; everything else is drawn. `often` is its weight."""

    pins: Pins
    often: int


def _offer(layers: LayersPin, method: SpecMethod, often: int, *, asynchronous: bool = False) -> Offer:
    pins = Pins(runner="V1", layers=layers, asynchronous=asynchronous, spec_method=method, block_size=32)
    return Offer(pins, often)


OFFERS: tuple[Offer, ...] = (
    _offer("mamba2", "ngram", 5),
    _offer("mamba2", "none", 1),
    _offer("gated-delta-net", "ngram", 2),
    _offer("gated-delta-net", "none", 1),
    # An asynchronous host has no n-grams.
    _offer("mamba2", "mtp", 3, asynchronous=True),
    _offer("mamba2", "eagle", 1, asynchronous=True),
    _offer("mamba2", "draft_model", 2, asynchronous=True),
    _offer("mamba2", "none", 1, asynchronous=True),
    _offer("gated-delta-net", "mtp", 2, asynchronous=True),
    _offer("gated-delta-net", "eagle", 1, asynchronous=True),
    _offer("gated-delta-net", "draft_model", 1, asynchronous=True),
    _offer("gated-delta-net", "none", 1, asynchronous=True),
)


def offers_within(wanted: Pins) -> list[Offer]:
    """The offers that a user's pins allow, with these pins. Raises InvalidCase if there is none."""
    asked = _set_in(wanted)
    allowed = [
        Offer(msgspec.structs.replace(offer.pins, **asked), offer.often)
        for offer in OFFERS
        if all(getattr(offer.pins, name) in (None, value) for name, value in asked.items())
    ]
    if allowed:
        return allowed
    impossible = [
        f"{name}={_in_words(value)}"
        for name, value in asked.items()
        if all(getattr(offer.pins, name) not in (None, value) for offer in OFFERS)
    ]
    named = ", ".join(impossible or [f"{name}={_in_words(value)}" for name, value in asked.items()])
    raise InvalidCase(f"no engine here has {named}; engines are {_all_in_words()}")


def why_no_run(case: SequenceCase) -> str | None:
    """Why no engine here can run a sequence; None if one can."""
    return "no engine here has streaming input" if case.streams else why_not(case.config)


def why_not(config: SequenceConfig) -> str | None:
    """Why no engine here can be like that; None if one can."""
    if config.drafter_block_size is not None:
        return "no engine here has a drafter with blocks of its own"
    wrong = [_differing(offer.pins, config) for offer in OFFERS]
    if not all(wrong):
        return None
    nearest = min(wrong, key=len)
    named = ", ".join(f"{name}={_in_words(getattr(config, name))}" for name in nearest)
    return f"no engine here has {named}; engines are {_all_in_words()}"


def _differing(pins: Pins, config: SequenceConfig) -> list[str]:
    """The axes of a configuration that pins do not allow. Files without layers are those of Mamba2."""
    given = msgspec.structs.replace(config, layers=config.layers or "mamba2")
    return [name for name, value in _set_in(pins).items() if getattr(given, name) != value]


def _set_in(pins: Pins) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(pins).items() if value is not None}


def _all_in_words() -> str:
    kinds = [", ".join(f"{name}={_in_words(value)}" for name, value in _set_in(offer.pins).items()) for offer in OFFERS]
    return "; ".join(kinds)


def _in_words(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
