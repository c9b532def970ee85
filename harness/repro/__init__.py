"""The file that carries a finding: its formats, and reading and writing it safely."""

from harness.repro.format import REPRO_VERSION, AnyRepro, Origin, Repro, SequenceRepro, ShrinkRecord
from harness.repro.store import MAX_BYTES, naming, read_any, read_repro, save, write_repro

__all__ = [
    "MAX_BYTES",
    "REPRO_VERSION",
    "AnyRepro",
    "Origin",
    "Repro",
    "SequenceRepro",
    "ShrinkRecord",
    "naming",
    "read_any",
    "read_repro",
    "save",
    "write_repro",
]
