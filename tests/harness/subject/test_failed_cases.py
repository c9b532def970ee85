"""A sequence in which the harness itself failed is kept as a file that can be shown and replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reports.shown_sequence import print_sequence
from harness.repro import read_any
from harness.sequences.recipe import SequenceRecipe
from harness.sequences.subject import StepSequences


def test_it_is_a_repro_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subject = StepSequences(target="vllm==0.33.0", recipe=SequenceRecipe(3))
    drawn = subject.draw(7)
    file = tmp_path / "failed.json"
    file.write_bytes(subject.encode_failed(drawn, 7, "Traceback (most recent call last):\n  ...\nKeyError: b'1'\n"))
    kind, repro = read_any(file)
    assert kind == subject.name
    assert (repro.origin.seed, repro.origin.index, repro.signature.oracle) == (3, 7, "harness")
    assert repro.sequence == drawn  # type: ignore[attr-defined]
    print_sequence(file, repro)  # type: ignore[arg-type]
    assert "the harness itself failed: KeyError: b'1'" in capsys.readouterr().out
