"""An explanation adds to the evidence of a failure what takes longer to work out: who wrote wrong bytes last, where
bytes like them lie, which lines of the target lead there, and which deviation from the specification reproduces it.

It is made for a failure that is kept, never for one that a campaign or shrinking only counts.
"""

from __future__ import annotations

import msgspec

from harness.check.contents import contents_in_words
from harness.check.evidence import code_places
from harness.check.operation_run import OperationRun
from harness.check.outcome import CodePlace, Difference, Evidence, Signature
from harness.check.writers import Writer, last_writer, writer_in_words


def explained(run: OperationRun, signature: Signature, evidence: Evidence) -> Evidence:
    """The evidence of a run with its explanation. `run` may have recorded nothing: then no writer is known."""
    writers = [last_writer(run, difference.offset) if run.recorded else None for difference in evidence.differences]
    differences = tuple(map(lambda one, by: _difference(run, one, by), evidence.differences, writers))
    places = evidence.places or _places(run, writers)
    return msgspec.structs.replace(evidence, differences=differences, places=places)


def _difference(run: OperationRun, difference: Difference, writer: Writer | None) -> Difference:
    return msgspec.structs.replace(
        difference,
        writer=writer_in_words(run, difference.offset, writer) if run.recorded else "",
        contents=contents_in_words(run, difference.offset, difference.size),
    )


def _places(run: OperationRun, writers: list[Writer | None]) -> tuple[CodePlace, ...]:
    """The lines of the first store that is known; of a launch that stored nothing there, the host's line."""
    for writer in writers:
        if writer is not None:
            return code_places("store", writer.code, writer.launched, run.owns)
    launched = next((launch.launched for launch in run.recorded if launch.launched), ())
    return code_places("store", (), launched, run.owns)
