"""`harness names`: what `--ops`, `--require`, `--relations`, `--fixes`, `--pins`, `--as` and `--report` take, and known
issues."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
import typer

from harness.cli.listing import print_listing
from harness.cli.options import JsonOption
from harness.cli.sequence_options import SEQUENCES
from harness.suggestions import unknown

Kind = Literal["operations", "regimes", "relations", "fixes", "issues", "faults", "pins", "forms", "reports"]

_OPTIONS: dict[Kind, str] = {
    "operations": "--ops",
    "regimes": "--require",
    "relations": "--relations",
    "fixes": "--fixes",
    "issues": "in brackets after a finding",
    "faults": "TARGET+NAME with --ops sequences; of kernels: harness targets",
    "pins": "--pins NAME=VALUE,...",
    "forms": "harness export FILE --as FORM",
    "reports": "harness run --report NAME=FILE",
}


def names(
    kind: Annotated[
        str | None,
        typer.Argument(help="operations, regimes, relations, fixes, issues, faults, pins, forms or reports."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List operations, regimes, relations, known issues, their fixes, planted faults, pins, forms of export, and
    reports: what each is."""
    if kind is not None and kind not in get_args(Kind):
        raise typer.BadParameter(unknown("kind of names", [kind], get_args(Kind)))
    found = {name: summaries for name, summaries in _all().items() if kind in (None, name)}
    if json:
        print(msgspec.json.encode(found).decode())
        return
    for number, (title, summaries) in enumerate(found.items()):
        if number:
            print()
        print(f"{title.capitalize()} ({_OPTIONS[title]})")
        print_listing(summaries)


def _all() -> dict[Kind, dict[str, str]]:
    from harness.export.registry import WORDS, forms
    from harness.generators.kinds.registry import KINDS
    from harness.generators.sequences.configurations import PINS
    from harness.issues.registry import KNOWN_ISSUES, SEQUENCE_ISSUES
    from harness.oracles.relations.registry import relations
    from harness.regimes import REGIMES
    from harness.reports.written.registry import REGISTRY as REPORTS
    from harness.sequences.faults import FAULTS

    operations: dict[str, str] = {name: kind.summary for name, kind in KINDS.items()}
    operations[SEQUENCES] = "step sequences driven by a release's own scheduler"
    return {
        "operations": operations,
        "regimes": {
            name: regime.summary
            + ("" if regime.operation is None else f" ({regime.operation})")
            + ("" if regime.reachable else " (total domain only)")
            for name, regime in sorted(REGIMES.items())
        },
        "fixes": {issue.name: issue.fix for issue in SEQUENCE_ISSUES},
        "issues": {issue.name: f"{issue.summary}; {issue.releases}; {issue.report}" for issue in KNOWN_ISSUES},
        "faults": {name: fault.summary for name, fault in FAULTS.items()},
        "pins": PINS,
        "forms": {
            name: f"{form.summary} ({', '.join(WORDS.get(kind, kind) for kind in form.kinds)})"
            for name, form in forms().items()
        },
        "reports": {name: report.about for name, report in REPORTS.table.items()},
        "relations": {name: f"the same result {relation.summary}" for name, relation in relations().items()},
    }
