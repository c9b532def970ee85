"""A program that reports many findings while a live view is drawn, without a campaign. It ends with status 130 after
Ctrl-C. Its arguments: the report, how many findings, and for how many seconds it waits after them."""

from __future__ import annotations

import signal
import sys
import time

from harness.campaign.events import CampaignStarted, Notice
from harness.interruption import INTERRUPTION
from harness.reports.registry import reporter
from tests.reports.progress import found, stats


def line(number: int) -> str:
    """What is printed of a finding: some are wider than any terminal here, and some hold what a target may say."""
    return f"finding {number}: {'wide ' * (number % 60)}[red]\x1b[2Jend of {number}"


def main() -> None:
    signal.signal(signal.SIGINT, lambda number, frame: INTERRUPTION.take(number))  # as the command does
    name, many, waits = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    begin = time.monotonic()
    shown = 0
    try:
        with reporter(name) as handle:
            handle(Notice("loading"))
            handle(
                CampaignStarted(
                    "a campaign",
                    2,
                    lambda: stats(
                        judged=shown,
                        in_this_part=shown,
                        violations=shown,
                        findings=list(map(found, range(shown))),
                        seconds=time.monotonic() - begin,
                    ),
                )
            )
            for number in range(many):
                shown = number + 1
                handle(Notice(line(number)))
                if number % 50 == 0:
                    time.sleep(0.1)
                    print(f"harness: said after {number}", file=sys.stderr, flush=True)
            time.sleep(waits)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
