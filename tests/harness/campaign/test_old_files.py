"""Files that earlier versions wrote: campaigns resume their journals, and every repro file is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.campaign.settings import Settings
from harness.issues.registry import DEFAULT_FIXES
from harness.repro import read_any
from harness.sequences.controls import Controls
from harness.sequences.recipe import SequenceRecipe
from harness.sequences.subject import StepSequences
from harness.subject.registry import read_file
from harness.worker.process import WorkerProcess

if TYPE_CHECKING:
    from tests.harness.campaign.conftest import Ran

HERE = Path(__file__).parent
SEQUENCES = HERE.parent / "sequences"
ROOT = HERE.parents[2]
SIGNATURE = "sequence/meaning/token-mismatch/mamba/-"

Run = Callable[..., "Ran"]
Make = Callable[..., Settings]


def test_a_journal_of_before_is_resumed(
    run: Run, settings: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The journal of fourteen sequences of the stub of a release, some of which show the same."""
    monkeypatch.setattr(WorkerProcess, "SERVES", (str(SEQUENCES / "stand_in_release.py"), "serve"))
    monkeypatch.setenv("STAND_IN", "")
    younger = ("uncounted-draft-slots", "streamed-session", "reset-with-session")
    fixes = tuple(name for name in DEFAULT_FIXES if name not in younger)
    subject = StepSequences(target="vllm==0.33.0", recipe=SequenceRecipe(5), controls=Controls(fixes=fixes))
    journal = tmp_path / "out" / subject.journal
    journal.parent.mkdir()
    old = (SEQUENCES / "data" / "sequences.journal").read_bytes()
    journal.write_bytes(old)
    ran = run(subject, settings(cases=14, resume=True))
    assert (ran.judged, [one[:3] for one in ran.found]) == ([], [(SIGNATURE, 2, 5)])
    assert (ran.summary.sequences, ran.summary.steps) == (14, 930)
    assert journal.read_bytes() == old
    more = run(subject, settings(cases=16, resume=True))
    assert more.judged == [14, 15]
    assert journal.read_bytes().startswith(old)


FOLDERS = (HERE.parent / "repro" / "data", ROOT / "corpus", ROOT / "corpus" / "sequences")
FILES = sorted(path for folder in FOLDERS for path in folder.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_repro_files_of_before_are_read(path: Path) -> None:
    kind, repro = read_any(path)
    assert kind == ("sequence" if path.parent.name == "sequences" else "case")
    subject, same = read_file(path)
    assert (subject.name, same) == (kind, repro)
    assert repro.domain in ("reachable", "total")
    assert any(Path(repro.file_name).match(pattern) for pattern in subject.file_patterns), "or it is not moved aside"
