"""The file that carries a finding: its format, and reading and writing it safely."""

from harness.repro.format import REPRO_VERSION, Origin, Repro, ShrinkRecord
from harness.repro.store import (
    MAX_BYTES,
    naming,
    read_repro,
    repro_name,
    require_writable,
    require_writable_file,
    write_repro,
)

__all__ = [
    "MAX_BYTES",
    "REPRO_VERSION",
    "Origin",
    "Repro",
    "ShrinkRecord",
    "naming",
    "read_repro",
    "repro_name",
    "require_writable",
    "require_writable_file",
    "write_repro",
]
