"""Repro files, which carry findings: their formats, and reading and writing them safely."""

from harness.repro.format import REPRO_VERSION, AnyRepro, EngineRepro, Origin, Repro, SequenceRepro, ShrinkRecord
from harness.repro.store import MAX_BYTES, naming, read_any, read_repro, save, write_repro

__all__ = [
    "MAX_BYTES",
    "REPRO_VERSION",
    "AnyRepro",
    "EngineRepro",
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
