"""Saving is writing a finding to a file while a campaign runs; if that fails, what was found is told instead."""

from __future__ import annotations

from pathlib import Path

from harness.repro import Repro, write_repro
from harness.repro.sequences import SequenceRepro


class NotSaved(Exception):
    """Something that could not be written, of a full disk for example: what it was goes into the message."""

    def __init__(self, what: str, error: OSError) -> None:
        text = f"{error.strerror}; {what} is not saved, and the campaign ends"
        self.error = OSError(error.errno, text, error.filename)


def save(path: Path, repro: Repro | SequenceRepro) -> None:
    """Write a repro file. Raises NotSaved."""
    try:
        write_repro(path, repro)
    except OSError as error:
        origin = repro.origin
        case = "" if origin.index is None else f", seed {origin.seed}, case {origin.index}"
        raise NotSaved(f"{repro.signature}{case}", error) from error
