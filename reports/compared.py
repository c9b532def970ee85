"""Several targets side by side, at the end of a campaign that judged the same cases on each target."""

from __future__ import annotations

import msgspec
from rich.text import Text

from harness.campaign.several import TargetComparison
from harness.reports.console import ReportConsole
from harness.text import counted


def print_comparison(comparison: TargetComparison) -> None:
    """Print a line for each target, then one for each finding with the targets that have it."""
    console = ReportConsole()
    noun = comparison.targets[0].noun
    console.print(Text(f"\n{counted(len(comparison.targets), 'target')}, the same {noun}s", style="bold"))
    width = max(map(len, comparison.names))
    for name, summary in zip(comparison.names, comparison.targets, strict=True):
        judged, not_judged = summary.overview()
        line = Text(f"  {name:{width}}  {counted(summary.count, noun)}, {judged}, ")
        count = len(summary.compared())
        line.append(counted(count, "finding"), style="bold red" if count else "bold green")
        line.append(not_judged)
        console.print(line)
    for finding in comparison.findings:
        where = ", ".join(
            f"{target} ({cases or 'met while shrinking another'})" for target, cases in finding.cases.items()
        )
        console.print(Text.assemble((finding.signature, "bold"), f" ({finding.domain} domain): {where}"))


def comparison_json(comparison: TargetComparison) -> str:
    """The comparison as one JSON object."""
    return msgspec.json.encode(comparison).decode()
