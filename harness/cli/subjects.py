"""The subjects that `harness run` can draw, each with its group of options; in the order in which they run."""

from __future__ import annotations

from harness.cli.case_options import CaseOptions
from harness.cli.engine_options import EngineOptions
from harness.cli.run_options import SubjectOptions
from harness.cli.sequence_options import SequenceOptions

GROUPS: tuple[type[SubjectOptions], ...] = (SequenceOptions, EngineOptions, CaseOptions)
