"""The text of a violation: it has only what is known."""

from __future__ import annotations

from harness.oracles.states.device import NO_WRITER, Device, Writer
from harness.oracles.states.state_oracle import StateOracle
from harness.oracles.states.texts import UNDEFINED
from harness.oracles.states.violation import Violation
from harness.sequences.verdicts import evidence_of


def test_a_state_is_reported_with_its_place_and_its_writer() -> None:
    writer = Writer(2, "request 1", 0, 4, "forward pass")
    text = Violation("wrong-state-read", "conv", 3, "request 7", 1, 2, 5, writer, "this", "that").summary
    assert "at block 5, column 2 of group 1: it holds this, and should hold that; last written by forward pass" in text


def test_a_missing_place_is_not_printed() -> None:
    entry = Violation("poisoned-cache-entry", "temporal", 3, "request 7", 1, -1, 5, NO_WRITER, "this", "that")
    assert "(temporal) at block 5, group 1: it holds this" in entry.summary
    raised = Violation("exception-AssertionError", "allocate", 3, "the engine", -1, -1, -1, NO_WRITER, "a is b", "")
    assert raised.summary == "step 3, the engine: AssertionError in allocate: a is b"
    assert evidence_of(raised, "line 1\nline 2").details == (
        "request: the engine",
        "step: 3",
        "found: a is b",
        "line 1",
        "line 2",
    )
    for violation in (entry, raised):
        assert "-1" not in str(evidence_of(violation).details) + violation.summary


def test_equal_slots_are_described_once() -> None:
    device = Device(4, 3, 8)
    meaning = StateOracle(device, 8, 4, (1,), (0,), (8,))
    device.written(1, Writer(1, "request 1", 0, 0, "forward pass"))
    assert meaning.describe([UNDEFINED] * 8, 1) == "undefined (8 times)"
    assert meaning.describe([UNDEFINED], 1) == "undefined"


def test_memory_without_a_state_is_described_by_what_happened_to_it() -> None:
    """Whether a row reads zeros or what an earlier owner left is what a maintainer asks first."""
    device = Device(4, 3, 8)
    meaning = StateOracle(device, 8, 4, (1,), (0,), (8,))
    assert meaning.describe([UNDEFINED], 1) == "undefined, since nothing was ever written there"
    device.written(1, Writer(1, "request 1", 0, 0, "forward pass"))
    device.zero(1)
    assert meaning.describe([UNDEFINED] * 2, 1) == "zeros, since the block was cleared for its new owner (2 times)"
    device.discard()
    assert not device.zeroed[1]


def test_host_code_and_model_are_reported_with_vllms_own_name() -> None:
    place = (-1, -1, -1, NO_WRITER, "2", "1", "num_accepted_tokens of row 3")
    differs = Violation("host-code-differs", "forward pass: accepted", 5, "request 1", *place)
    assert differs.summary == (
        "step 5, request 1: num_accepted_tokens of row 3 (forward pass: accepted): "
        "the release's host code says 2, our model of it says 1"
    )
    assert evidence_of(differs).details == (
        "request: request 1",
        "step: 5",
        "where: num_accepted_tokens of row 3",
        "the release's host code says: 2",
        "our model of it says: 1",
    )


def test_a_block_that_was_never_written_has_no_writer() -> None:
    entry = Violation("poisoned-cache-entry", "temporal", 3, "request 7", 1, -1, 5, NO_WRITER, "this", "that")
    assert "last writer: nobody" in evidence_of(entry).details
