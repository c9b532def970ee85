"""The live view: a few lines at the foot of a terminal that say how far a campaign is. Lines that stay are above.

A thread draws it four times a second, and so do lines that stay. The campaign is asked for its statistics no more often
than that, so that no case waits for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from harness.campaign.stats import Stats
from harness.interruption import INTERRUPTION
from harness.reports.console import printable
from harness.text import counted

DRAWN_PER_SECOND = 4
"""How often it is drawn."""

LOADING = "loading the target"
_GAP = "   "


def is_live(console: Console) -> bool:
    """Whether standard output is a terminal on which lines can be drawn again. Colours may be forced on other files."""
    return sys.stdout.isatty() and console.is_interactive and not console.is_dumb_terminal


class LiveView:
    """Draws from `start` until `stop`, and may be started again. Until `follow` is called it shows what was `said`
    last."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(
            self,
            console=console,
            refresh_per_second=DRAWN_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            # What goes to a terminal has to appear above; a file gets its own.
            redirect_stderr=sys.stderr.isatty(),
        )
        self._spinner = Spinner("dots", style="green")
        self._stats: Callable[[], Stats] | None = None
        self._taken: tuple[float, list[Text]] = (-1.0, [])
        """When statistics were taken last, by the console's clock, and what they say."""
        self._said = LOADING

    def say(self, text: str) -> None:
        """Show this until a campaign is followed."""
        self._said = text

    def follow(self, stats: Callable[[], Stats]) -> None:
        """Show the statistics of a campaign, which are asked for whenever the view is drawn."""
        self._stats = stats
        self._taken = (-1.0, [])

    def start(self) -> None:
        with INTERRUPTION.postponed():
            self._live.start()

    def stop(self) -> None:
        """Take the view away. What a campaign said is forgotten."""
        with INTERRUPTION.postponed():
            self._live.stop()
            self._console.show_cursor(True)  # also where a second interrupt cut an earlier call short
            self._stats, self._said = None, LOADING

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        now, stats = console.get_time(), self._stats
        if stats is None:
            parts = [Text(printable(self._said))]
        else:
            taken, parts = self._taken
            if taken < 0 or now - taken >= 1 / DRAWN_PER_SECOND:
                parts = list(parts_of(stats()))
                self._taken = (now, parts)
        frame = self._spinner.render(now)
        assert isinstance(frame, Text)
        yield Text("\n").join(packed([Text.assemble(frame, " ", parts[0]), *parts[1:]], options.max_width))


def parts_of(stats: Stats) -> Iterator[Text]:
    """What the view says, in parts that belong on one line each."""
    yield Text(stats.phase, style="bold")
    limit = "" if stats.limit_cases is None else f" of {stats.limit_cases:,}"
    count = f"{stats.judged:,}{limit} {stats.noun}{'' if (stats.limit_cases or stats.judged) == 1 else 's'}"
    skipped = f": {stats.judged - stats.skipped:,} judged, {stats.skipped:,} skipped" if stats.skipped else " judged"
    yield Text(f"{count}{skipped}")
    if stats.phase == "judging" and stats.in_this_part:
        yield Text(f"{rate_in_words(stats.per_second)} a second")
    if stats.regimes:
        yield Text(f"{stats.regimes_reached} of {counted(stats.regimes, 'regime')}")
    found = len(stats.findings)
    failed = f" in {stats.violations:,} {stats.noun}{'' if stats.violations == 1 else 's'}" if found else ""
    yield Text(f"{counted(found, 'finding')}{failed}", style="bold red" if found else "")
    if stats.harness_failures:
        yield Text(counted(stats.harness_failures, "harness failure"), style="bold magenta")
    if stats.workers_lost:
        yield Text(counted(stats.workers_lost, "lost worker"), style="yellow")
    left = seconds_left(stats)
    more = "" if left is None else f", {clock(left)} left"
    yield Text(f"{clock(stats.seconds)}{more}", style="dim")


def packed(parts: list[Text], width: int) -> list[Text]:
    """The parts in as few lines as fit in so many columns; a part that is wider is cut off."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + len(_GAP) + part.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], _GAP, part)
        else:
            lines.append(Text.assemble("  " * bool(lines), part))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def rate_in_words(rate: float) -> str:
    """A rate with three digits, or as many as it has before the point."""
    return f"{rate:.2f}" if rate < 10 else f"{rate:.1f}" if rate < 100 else f"{rate:,.0f}"


def seconds_left(stats: Stats) -> float | None:
    """How long the campaign has still: what is left of the budget, or what the cases take that are left at the rate so
    far. None where that is not known: of other phases, and before the first case."""
    if stats.phase != "judging":
        return None
    if stats.limit_seconds is not None:
        return max(0.0, stats.limit_seconds - stats.seconds)
    if stats.limit_cases is None or stats.per_second <= 0:
        return None
    return max(0, stats.limit_cases - stats.judged) / stats.per_second


def clock(seconds: float) -> str:
    """`0:07`, `12:34`, `1:02:03`."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
