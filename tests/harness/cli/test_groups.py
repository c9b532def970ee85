"""Groups of options can be made without a command line, and then have its default values."""

from __future__ import annotations

import pytest
import typer

from harness.cli.case_options import CaseOptions
from harness.cli.sequence_options import SequenceOptions
from harness.engines.relations import sampled
from harness.generators.sequences.configurations import Pins
from harness.oracles.relations.registry import relations


def test_defaults_are_read() -> None:
    case, sequence = CaseOptions(), SequenceOptions()
    assert (case.domain, case.require) == (("reachable", "total"), ())
    assert case.relations == sampled(tuple(relations()))
    assert (case.checks, case.interleave, case.engine) == ("vary", "vary", "random")
    assert (sequence.pins, sequence.fixes) == (Pins(), None)


def test_texts_are_read_and_what_is_read_stays() -> None:
    case = CaseOptions(domain="both", interleave="4", checks=("memory",))
    assert (case.domain, case.interleave, case.checks) == (("reachable", "total"), 4, ("memory",))
    assert SequenceOptions(pins="runner=V1").pins == Pins(runner="V1")
    with pytest.raises(typer.BadParameter, match="unknown domain 'nowhere'"):
        CaseOptions(domain="nowhere")
