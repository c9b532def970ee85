"""A plot of a report: microseconds over the number of requests, a panel for each kind of step, a line for each arm."""

from __future__ import annotations

from pathlib import Path

from harness.bench.report import Report, Row
from harness.files import require_writable_file

_MISSING = "plots need matplotlib: pip install matplotlib"


class NoPlot(Exception):
    """There is nothing to draw, or matplotlib is missing. The message is one line."""


def require_plot(file: Path) -> None:
    """Raise NoPlot if a plot could not be drawn into `file`, or OSError if it could not be written."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise NoPlot(_MISSING) from error
    kinds = FigureCanvasBase.get_supported_filetypes()
    if file.suffix[1:].lower() not in kinds:
        raise NoPlot(f"{file}: its suffix is not one of {', '.join(sorted(kinds))}")
    require_writable_file(file)


def save_plot(report: Report, file: Path) -> None:
    """Draw a report into `file`, as its suffix says (svg, png, pdf). Raises NoPlot."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NoPlot(_MISSING) from error
    panels = _panels(report)
    if not panels:
        raise NoPlot("the report has no kind of step with several numbers of requests")
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(5 * columns, 3.6 * lines), layout="constrained")
    for place, (title, rows) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(lines, columns, place)
        for arm in dict.fromkeys(name for row in rows for name in row.times):
            points = sorted((row.requests, row.times[arm].microseconds) for row in rows if arm in row.times)
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1.2, label=arm)
        axes.set_title(title, fontsize=8)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("requests", fontsize=7)
        axes.set_ylabel("µs", fontsize=7)
        axes.tick_params(labelsize=7)
        axes.grid(visible=True, which="major", linewidth=0.3)
        axes.legend(fontsize=6)
    figure.suptitle(f"{report.device}, torch {report.torch}, triton {report.triton}", fontsize=9)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file)
    except (OSError, ValueError) as error:
        raise NoPlot(f"{file} cannot be written: {str(error).splitlines()[0]}") from error


def _panels(report: Report) -> dict[str, list[Row]]:
    """Rows that differ only in the number of requests, by a text of what they share; at least three of them each."""
    panels: dict[str, list[Row]] = {}
    for row in report.rows:
        if row.measure == "graph":
            alignment = "" if row.aligned else ", unaligned"
            panels.setdefault(f"{row.shape}, {row.conv_layout}{alignment}: {row.operation}, {row.fill}", []).append(row)
    return {title: rows for title, rows in panels.items() if len({row.requests for row in rows}) >= 3}
