"""Pins: each is explained, and everything that a pin allows can be drawn."""

from __future__ import annotations

import re

import pytest
import typer

from harness.case.sequence import decode_sequence, encode_sequence
from harness.cli.sequence_options import parse_pins
from harness.generators.draw import RandomDraw
from harness.generators.sequences.configurations import PINS, Pins
from harness.generators.sequences.events import draw_sequence


def test_every_pin_is_explained() -> None:
    assert tuple(PINS) == Pins.__struct_fields__


@pytest.mark.parametrize("more", ["", ",partial=true,checkpoints=true,tight=true,chunks=true"])
@pytest.mark.parametrize("pin", PINS)
def test_every_documented_value_of_a_pin_can_be_drawn(pin: str, more: str) -> None:
    values = re.findall(r"[\w-]+", PINS[pin].partition(":")[0].replace(" or ", " "))
    for value in [*values, *re.findall(r"; (\w+):", PINS[pin])]:
        pins = parse_pins(f"{pin}={value}" + ("" if pin in more else more))
        for seed in range(10):
            case = draw_sequence(RandomDraw(f"{seed}"), pins)
            assert decode_sequence(encode_sequence(case)) == case
            if pin in ("block_size", "runner", "asynchronous"):
                assert str(getattr(case.config, pin)).lower() == value.lower()


@pytest.mark.parametrize("text", ["block_size=1", "block_size=5", "runner=V3", "colour=red", "runner"])
def test_other_pins_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_pins(text)
