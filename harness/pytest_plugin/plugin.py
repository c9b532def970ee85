"""The pytest plugin: a kernel project runs campaigns inside its own suite, one item for each operation.

    pytest --harness-target path:. --harness-budget 60s

Without `--harness-target` it does nothing and imports nothing of the harness. With it, each item is a `harness run` in
a process of its own, so that a fault of a kernel costs that item alone and pytest-xdist can spread the items. An
operation that the target lacks is skipped with the reason; findings fail the item, with the command that shows each of
them again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

GROUP = "harness"
TARGET = "--harness-target"
OPTIONS = (
    *(TARGET, "--harness-budget", "--harness-cases", "--harness-ops", "--harness-seed", "--harness-executor"),
    "--harness-out",
)
DEFAULT_BUDGET = "60s"
DEFAULT_OUT = "harness-findings"
LOOKED_AT = "harness-looked-at"
"""The property of a report that says how much an item looked at."""

_COMMAND = (
    "from harness.worker.parent import end_with_parent; end_with_parent(); from harness.cli.main import main; main()"
)
"""The campaign ends with pytest, however that ends."""

_INTERRUPTED = pytest.StashKey[str]()
"""What the command said of a campaign that was interrupted."""

_PATIENCE = 20.0
"""Seconds in which a campaign that was interrupted ends by itself: it keeps what it has found."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup(GROUP, "differential fuzzing of kernels that move Mamba state")
    group.addoption(TARGET, metavar="TARGET", help="what to test: path:., vllm, vllm==X, builtin")
    group.addoption(
        "--harness-budget",
        metavar="TIME",
        help=f"how long all operations are tested, shrinking not included: 60s, 5m, 2h; each gets its share "
        f"(default: {DEFAULT_BUDGET})",
    )
    group.addoption(
        "--harness-cases",
        metavar="N",
        type=int,
        help="number of cases of each operation, in place of a budget: the same on any machine",
    )
    group.addoption(
        "--harness-ops",
        metavar="NAMES",
        help="operations, comma-separated, sequences and engine among them (default: all kernel operations)",
    )
    group.addoption("--harness-seed", metavar="N", type=int, help="the seed of the cases (default: 0)")
    group.addoption("--harness-executor", metavar="NAME", help="cuda, native or interpreter (default: the fastest)")
    group.addoption(
        "--harness-out",
        metavar="DIR",
        help=f"folder for repro files, one inside it for each operation (default: {DEFAULT_OUT})",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Raises pytest.UsageError for options that make no sense, before anything is collected."""
    config.addinivalue_line("markers", f"{GROUP}: a campaign of the harness, with --harness-target")
    given = [name for name in OPTIONS if config.getoption(name) is not None]
    if given and not (config.getoption(TARGET) or "").strip():
        raise pytest.UsageError(f"harness: {given[0]} needs {TARGET}, which names what to test")
    if given:
        _plan(config)


@pytest.hookimpl(tryfirst=True)  # before others deselect
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    target = config.getoption(TARGET)
    if target:
        items.extend(Campaigns.from_parent(session, name=GROUP, nodeid=GROUP).collect())


def _plan(config: pytest.Config) -> tuple[list[str], float]:
    """The operations, and the seconds that each gets."""
    import typer

    from harness.cli.options import ALL, parse_seconds, split
    from harness.cli.run_options import require_operations
    from harness.cli.subjects import GROUPS
    from harness.generators.kinds.registry import KINDS

    try:
        names = split(config.getoption("--harness-ops") or ALL)
        require_operations(names, [name for group in GROUPS for name in group.operations()])
        seconds = parse_seconds(config.getoption("--harness-budget") or DEFAULT_BUDGET)
    except typer.BadParameter as refused:
        raise pytest.UsageError(f"harness: {refused}") from refused
    cases = config.getoption("--harness-cases")
    if cases is not None and config.getoption("--harness-budget") is not None:
        raise pytest.UsageError("harness: --harness-budget and --harness-cases exclude each other")
    if cases is not None and cases < 1:
        raise pytest.UsageError("harness: --harness-cases must be at least 1")
    if (config.getoption("--harness-seed") or 0) < 0:
        raise pytest.UsageError("harness: --harness-seed must not be negative")
    operations = list(KINDS) if names == [ALL] else names
    return operations, seconds / len(operations)


class Campaigns(pytest.Collector):
    """All items of the harness."""

    def collect(self) -> Iterator[Campaign]:
        operations, seconds = _plan(self.config)
        for name in operations:
            yield Campaign.from_parent(self, name=name, seconds=seconds)


class FindingsError(Exception):
    """A campaign found something. `summary` is what `harness run --json` prints."""

    def __init__(self, summary: Mapping[str, Any]) -> None:
        from harness.text import counted

        super().__init__(counted(len(summary["findings"]), "finding"))
        self.summary = summary


class CampaignError(Exception):
    """A campaign could not do what was asked for. The message says what was missing, or what the command printed."""


class Campaign(pytest.Item):
    """A campaign of one operation. `seconds` is its share of the budget, if that is what ends it."""

    def __init__(self, *, seconds: float, **common: Any) -> None:
        super().__init__(**common)
        self.seconds = seconds
        out = Path(self.config.invocation_params.dir, self.config.getoption("--harness-out") or DEFAULT_OUT)
        self.out = out / self.name
        self.add_marker(GROUP)

    def runtest(self) -> None:
        from harness.exit_status import NOTHING_FOUND

        status, output, errors = self._run()
        summary = _summary(output)
        if summary is None:
            raise CampaignError(_last_line(errors) or f"harness ended with status {status}")
        self.user_properties.append((LOOKED_AT, _looked_at(summary)))
        for finding in summary["findings"]:
            self.user_properties.append(("harness-finding", f"{finding['signature']}: {finding['repro']}"))
        if summary["findings"]:
            raise FindingsError(summary)
        lost = [one if isinstance(one, str) else f"LOST {one['name']}: {one['why']}" for one in summary.get("lost", ())]
        lacking = summary.get("lacking", {}).get(self.name)
        if lacking and not lost:
            pytest.skip(lacking)
        if status != NOTHING_FOUND:
            missing = [f"not judged: {name}" for name in summary["missing"]]
            raise CampaignError(
                "\n".join((*lost, *missing)) or _last_line(errors) or f"harness ended with status {status}"
            )

    def _run(self) -> tuple[int, str, str]:
        """Exit status, standard output and standard error of the command."""
        asked = self.config.getoption
        words = ["run", "--target", asked(TARGET), "--ops", self.name]
        cases = asked("--harness-cases")
        words += ["--budget", f"{self.seconds:g}s"] if cases is None else ["--cases", str(cases)]
        words += ["--seed", str(asked("--harness-seed") or 0), "--out", str(self.out), "--json"]
        if asked("--harness-executor"):
            words += ["--executor", asked("--harness-executor")]
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _COMMAND, *words],
            cwd=self.config.invocation_params.dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            output, errors = process.communicate()
        except KeyboardInterrupt:
            process.terminate()
            try:
                _, errors = process.communicate(timeout=_PATIENCE)
                self.config.stash[_INTERRUPTED] = f"{self.nodeid}: {_last_line(errors)}"  # what is printed is captured
            except subprocess.TimeoutExpired:
                process.kill()
            raise
        return process.returncode, output, errors

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        error = excinfo.value
        if isinstance(error, FindingsError):
            return "\n".join(_failure(error.summary))
        if isinstance(error, CampaignError):
            return str(error)
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.out, None, f"harness: {self.name} of {self.config.getoption('--harness-target')}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """How much each item looked at: a campaign that passed says nothing about what it did not reach."""
    reports = [one for found in terminalreporter.stats.values() for one in found]
    looked = [(one.nodeid, dict(one.user_properties)) for one in reports if getattr(one, "when", "") == "call"]
    lines = [f"{name}: {properties[LOOKED_AT]}" for name, properties in looked if LOOKED_AT in properties]
    interrupted = config.stash.get(_INTERRUPTED, None)
    if interrupted is not None:
        lines.append(interrupted)
    if lines:
        terminalreporter.section("harness")
        for line in sorted(lines):
            terminalreporter.line(line)


def _looked_at(summary: Mapping[str, Any]) -> str:
    """In words."""
    from harness.text import counted

    if "cases" in summary:
        what = f"{counted(summary['cases'], 'case')}, {counted(sum(summary['judged'].values()), 'operation')} judged"
        reached = sum(count > 0 for count in summary["regimes"].values())
        return f"{what}, {reached} of {len(summary['regimes'])} regimes"
    return f"{counted(summary['sequences'], 'sequence')}, {counted(summary['steps'], 'step')}"


def _last_line(errors: str) -> str:
    """What the command said last: why it ended."""
    return (errors.strip().splitlines() or [""])[-1]


def _summary(output: str) -> Mapping[str, Any] | None:
    """The object that the command printed; None if it printed none."""
    lines = output.splitlines()
    return dict(json.loads(lines[-1])) if lines else None


def _failure(summary: Mapping[str, Any]) -> Iterator[str]:
    """What was found, for people: fault by fault, the simplest finding of each."""
    from harness.reports.written.result import about, faults
    from harness.text import counted

    yield f"{counted(len(summary['findings']), 'finding')} on {summary['target']}, seed {summary['seed']}"
    for first, others, shared in faults(summary):
        yield first["signature"]
        yield from (f"  {line}" for line in about(first))
        if others:
            yield f"  and {counted(len(others), 'finding')} more that very likely have the same cause: {shared}"
