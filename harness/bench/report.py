"""A report is what one run of the kernel benchmark measured, and on what; it is saved as JSON, to be compared later.

Nothing here needs PyTorch or Triton: reports are compared on machines that have neither.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from harness.case import ConvLayout
from harness.files import require_regular
from harness.refusal import Refusal
from harness.text import one_line

MAX_BYTES = 16 << 20
"""Maximum number of bytes of a report; a report of all shapes and several targets has less than a megabyte."""

SHORTEST = 1e-3
"""Microseconds: the step to which times are rounded, and the shortest one that is reported."""
LONGEST = 1e12
"""Microseconds: eleven days."""


class InvalidReport(Refusal):
    """A file that is not a report. The message is one line that names it."""


class Sample(msgspec.Struct, frozen=True):
    """Microseconds of one launch: the median, and the distance between the quartiles as a share of it."""

    microseconds: Annotated[float, msgspec.Meta(ge=SHORTEST, le=LONGEST)]
    spread: Annotated[float, msgspec.Meta(ge=0)]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of all arms: `times` by arm, in microseconds.

    Arms are targets, and `copy`, which moves as many bytes within the device. `measure` is `graph` (a launch in a CUDA
    graph), `host` (the host's part of a launch) or `latency` (a call, until the device is done). `bytes` are those read
    and written.
    """

    shape: str
    conv_layout: ConvLayout
    aligned: bool
    operation: str
    fill: str
    requests: int
    movers: int
    bytes: int
    measure: str
    times: Mapping[str, Sample]

    @property
    def key(self) -> tuple[object, ...]:
        """The key by which rows of two runs are compared. No two rows of one report have the same."""
        return (
            *(self.shape, self.conv_layout, self.aligned, self.operation, self.fill),
            *(self.requests, self.movers, self.measure),
        )


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that one run measured, and on what. `skipped` says why there is nothing, or what was left out."""

    device: str
    torch: str
    triton: str
    python: str
    targets: Sequence[str]
    seconds: float
    rows: Sequence[Row] = ()
    skipped: Sequence[str] = ()


def read_report(file: Path) -> Report:
    """Read a saved report. Raises InvalidReport if anything is wrong with it: only regular files are opened, and never
    more than MAX_BYTES are read."""
    try:
        require_regular(file)
        with file.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidReport(f"{file} cannot be read: {error.strerror or error}") from error
    if len(text) > MAX_BYTES:
        raise InvalidReport(f"{file} has more bytes than a report may have ({MAX_BYTES})")
    try:
        report = msgspec.json.decode(text.removeprefix(codecs.BOM_UTF8), type=Report)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise InvalidReport(f"{file} is not a report of `harness bench kernels`: {one_line(error)}") from error
    if len({row.key for row in report.rows}) < len(report.rows):
        raise InvalidReport(f"{file} is not a report of `harness bench kernels`: two of its rows measure the same")
    return report
