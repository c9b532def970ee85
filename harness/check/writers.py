"""The writer of a byte is the last store of an operation's launches to it; also here is the load that fed it.

Both come from the record of accesses that the race oracle reads. A load counts as the origin of what was stored only if
it is the same program's, for the same lane, and memory held the stored value there: nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.accesses import AccessSource, RecordedLaunch
from harness.check.evidence import launched_at
from harness.check.operation_run import OperationRun
from harness.code_lines import CodeLine, chain_in_words
from harness.memory import describe

NEVER_WRITTEN = "no store of this launch touched these bytes"
NEVER_WRITTEN_BY_ANY = "no store of these launches touched these bytes"


@dataclass(frozen=True)
class Writer:
    """A store of one launch: grid indices of the program, its line with the calls that lead there, the host's lines
    that launched it, and the arena offset that the stored value was loaded from, None if that is not known."""

    program: tuple[int, int, int]
    code: tuple[CodeLine, ...]
    launched: tuple[CodeLine, ...]
    loaded_from: int | None


def last_writer(run: OperationRun, offset: int) -> Writer | None:
    """The last store to the byte at `offset`; None if no launch stored there."""
    for launch in reversed(run.recorded):
        stores = _touching(launch, offset, stores=True)
        if len(stores):
            return _writer(run, launch, int(stores[-1]), offset)
    return None


def writer_in_words(run: OperationRun, offset: int, size: int, writer: Writer | None) -> str:
    """Who wrote the byte at `offset`, the first of `size` that are wrong, as a sentence without a full stop."""
    if writer is None:
        whole = NEVER_WRITTEN if len(run.recorded) == 1 else NEVER_WRITTEN_BY_ANY
        others = any(_stores_into(launch, offset, size) for launch in run.recorded)
        return whole.replace("these bytes", "the first of these bytes") if others else whole
    text = f"written by program {writer.program} at {chain_in_words(writer.code) or 'a line that is not known'}"
    if writer.loaded_from is not None:
        text += f"; loaded from {describe(run.case, run.plan, writer.loaded_from).name}"
    return text + launched_at(writer.launched, run.owns)


def _stores_into(launch: RecordedLaunch, offset: int, size: int) -> bool:
    """Whether a launch stores to any of the bytes."""
    widths = launch.sources.width[launch.source]
    ends = launch.offset + launch.count * widths
    return bool(np.any((launch.offset < offset + size) & (ends > offset) & launch.sources.is_store[launch.source]))


def _touching(launch: RecordedLaunch, offset: int, *, stores: bool) -> np.ndarray:
    """The records of a launch that touch a byte, in order."""
    widths = launch.sources.width[launch.source]
    kinds = launch.sources.is_store[launch.source]
    inside = (launch.offset <= offset) & (offset < launch.offset + launch.count * widths)
    (found,) = np.nonzero(inside & (kinds == stores))
    return found


def _writer(run: OperationRun, launch: RecordedLaunch, record: int, offset: int) -> Writer:
    source = launch.sources[launch.source[record]]
    within = offset - int(launch.offset[record])
    lane, byte = divmod(within, source.width)
    at = int(launch.stored_at[record]) + lane * source.width
    value = launch.stored[at : at + source.width]
    loaded = _loaded_from(run, launch, record, int(launch.lane[record]) + lane, value)
    code = (CodeLine(source.file, source.function, source.line), *source.callers) if source.file else ()
    return Writer(launch.program_at(record), code, launch.launched, None if loaded is None else loaded + byte)


def _loaded_from(run: OperationRun, launch: RecordedLaunch, store: int, lane: int, value: np.ndarray) -> int | None:
    """The arena offset of the nearest load of a lane before a store that had the stored value."""
    width = len(value)
    fitting = [number for number, source in enumerate(launch.sources) if _is_load(source, width)]
    records = np.arange(store)
    mine = (
        (launch.program[records] == launch.program[store])
        & np.isin(launch.source[records], fitting)
        & (launch.lane[records] <= lane)
        & (lane < launch.lane[records] + launch.count[records])
    )
    for record in np.nonzero(mine)[0][::-1][:64]:
        offset = int(launch.offset[record]) + (lane - int(launch.lane[record])) * width
        try:
            held = run.before.view(offset, width)
        except IndexError:
            continue
        if np.array_equal(held, value):
            return offset
    return None


def _is_load(source: AccessSource, width: int) -> bool:
    return not source.is_store and source.width == width
