"""`harness run`: a campaign."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from harness.cli.began import BEGAN
from harness.cli.groups import given, with_groups
from harness.cli.on_ray import require_options_of_ray, run_on_ray
from harness.cli.options import announce, split
from harness.cli.run_command import OPTIONS
from harness.cli.run_options import RunOptions, SubjectOptions, require_operations
from harness.cli.subjects import GROUPS
from harness.exit_status import Interrupted, worst
from harness.subject.registry import AnySubject
from harness.text import counted

if TYPE_CHECKING:
    from harness.campaign.corpus import CorpusFile
    from harness.campaign.events import Event
    from harness.campaign.expectations import Expectations
    from harness.reports.written.registry import Asked

Handler = Callable[["Event"], None]

_BY_PLACE = sorted(GROUPS, key=lambda group: group.PLACE)


@with_groups(*_BY_PLACE)
def run(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="With --resume: the folder of the campaign, which knows its options."),
    ] = None,
    *,
    common: RunOptions,
    groups: tuple[SubjectOptions, ...],
) -> None:
    """Draw cases, compare the target with the oracle, save and shrink what differs."""
    began = BEGAN.take()
    by_name = folder is not None
    if folder is not None:
        if not common.resume:
            raise typer.BadParameter(
                f"unexpected {str(folder)!r}: a folder is given with --resume, else --out names it"
            )
        common = replace(common, out=folder)
    if common.budget == 0 and not common.resume:
        raise typer.BadParameter("--budget 0 judges nothing: it is for --resume, to sort out what was found")
    if common.shard is not None and common.targets is not None and common.cases is None:
        raise typer.BadParameter(
            "--shard with --targets needs --cases: with a budget the first target decides how many"
        )
    if common.budget is not None and common.cases is not None:
        raise typer.BadParameter("--budget and --cases exclude each other")
    require_options_of_ray(common)
    if common.target is not None and common.targets is not None:
        raise typer.BadParameter("--target and --targets exclude each other")
    require_operations(common.ops, [name for group in _BY_PLACE for name in group.operations()])
    groups = tuple(sorted(groups, key=lambda group: GROUPS.index(type(group))))
    wanted = [group for group in groups if group.wanted(common)]
    shared = {kind for group in wanted for kind in group.SHARES}
    for group in groups:
        needless = [] if group in wanted or type(group) in shared else given(context, group)
        if needless:
            raise typer.BadParameter(f"{' and '.join(needless)}: {group.ONLY}")
    from harness.files import require_writable
    from harness.reports.written.registry import written_reports

    asked = parse_reports(common.report or (), common.out)
    expected = _expectations(common)
    corpus = _corpus(common)
    require_writable(common.out)
    if common.resume and common.targets is not None and any(common.out.glob("*.journal")):
        raise typer.BadParameter(f"'{common.out}' holds a campaign of one target, not of --targets")
    started = by_name or (len(wanted) > 1 and any(common.out.glob("*.journal")))
    options = None if context.obj is None else context.obj.get(OPTIONS)
    if common.ray is not None:
        run_on_ray(context, common, options or {})
        return
    statuses: list[int] = []
    with written_reports(asked) as written:
        for number, group in enumerate(wanted):
            before = wanted if common.resume else wanted[:number]
            others = [one for one in groups if type(one) in group.SHARES]
            together = tuple(one.SUBJECT for one in before)
            played, left = _parted(corpus, group.SUBJECT, [] if number else [one.SUBJECT for one in wanted])
            files = (played, left)
            begins = time.monotonic() if number else began
            statuses.append(_run(common, group, others, started, together, options, expected, files, written, begins))
    sys.exit(worst(statuses))


def parse_reports(texts: Sequence[str], out: Path) -> list[Asked]:
    """Reports and their files, from `NAME=FILE` or `NAME`, comma-separated. `out` is the folder of the campaign.

    Raises typer.BadParameter, UnknownReport, and OSError for a file that cannot be written."""
    return require_reports(named_reports(texts), out)


def named_reports(texts: Sequence[str]) -> list[tuple[str, str]]:
    """The names and files in `NAME=FILE` or `NAME`, comma-separated; a file is empty where none is given."""
    parted = [one.partition("=") for listed in texts for one in split(listed)]
    return [(name, file) for name, _, file in parted]


def require_reports(named: Sequence[tuple[str, str]], out: Path) -> list[Asked]:
    """Reports by name, each with its file (empty: it has none). Raises as `parse_reports`."""
    from harness.campaign.folder import OWN
    from harness.files import require_writable_file
    from harness.reports.written.registry import REGISTRY

    asked: list[Asked] = []
    home = out.resolve()
    taken = {home}
    for name, file in named:
        text = f"{name}={file}" if file else name
        report = REGISTRY.named(name)
        if report.takes_file != bool(file):
            right = f"{name}=FILE" if report.takes_file else name
            raise typer.BadParameter(f"--report {text}: write --report {right}")
        path = Path(file) if file else None
        if path is not None:
            place = path.resolve()
            if place.is_relative_to(home / OWN) or (place.parent == home and place.suffix == ".journal"):
                raise typer.BadParameter(f"--report {text}: that file is the campaign's own")
            if place in taken:
                raise typer.BadParameter(f"--report {text}: something else is written there")
            taken.add(place)
            require_writable_file(path)
        asked.append((report, path))
    return asked


def _expectations(common: RunOptions) -> Expectations | None:
    """What is known before the run; None if nothing is. Raises typer.BadParameter, Refusal for a file or folder that
    cannot be read, and InvalidCase."""
    from harness.campaign.expectations import expectations
    from harness.files import require_text

    for path in filter(None, (common.known, common.baseline, common.corpus)):
        require_text(path)
    _require_others({"--baseline": common.baseline, "--corpus": common.corpus}, common.out)
    if common.targets is not None and (common.baseline is not None or common.corpus is not None):
        raise typer.BadParameter("--baseline and --corpus are for one target: they exclude --targets")
    if common.known is None and common.baseline is None and common.corpus is None:
        return None
    return expectations(common.known, common.baseline)


def _require_others(folders: Mapping[str, Path | None], out: Path) -> None:
    """Raises typer.BadParameter for a folder that is also the campaign's own."""
    for option, folder in folders.items():
        if folder is not None and folder.resolve() == out.resolve():
            raise typer.BadParameter(f"{option} and --out are the same folder: give another --out")


def require_known(before: Mapping[str, Path | None], out: Path) -> None:
    """Read what `--known`, `--baseline` and `--corpus` name, for a command that writes before its campaign does. Raises
    what `run` raises for them."""
    from harness.campaign.corpus import read_corpus
    from harness.campaign.expectations import expectations

    _require_others({name: path for name, path in before.items() if name != "--known"}, out)
    expectations(before["--known"], before["--baseline"])
    if before["--corpus"] is not None:
        read_corpus(before["--corpus"])


def _corpus(common: RunOptions) -> list[CorpusFile]:
    """The files of the corpus, if there is one. Raises InvalidCase."""
    from harness.campaign.corpus import read_corpus

    return [] if common.corpus is None else read_corpus(common.corpus)


def _parted(corpus: Sequence[CorpusFile], kind: str, kinds: Sequence[str]) -> tuple[list[CorpusFile], list[CorpusFile]]:
    """The files that a campaign of a kind replays, and those that it lists as left out: where `kinds` are given, those
    that are of none of them."""
    left = [one for one in corpus if kinds and one.kind.name not in kinds]
    return [one for one in corpus if one.kind.name == kind], left


def _replayed(
    expected: Expectations | None,
    parts: tuple[Sequence[CorpusFile], Sequence[CorpusFile]],
    common: RunOptions,
    target: str,
) -> Expectations | None:
    """The same with files of the corpus: the first ones are replayed on a target, as `harness replay` does it, the
    others are listed as left out. Raises InvalidCase, Refusal, and what workers do."""
    from harness.campaign.corpus import ReplayedFile, replay_corpus
    from harness.subject.subject import Setting

    if expected is None:
        return None
    files, left = parts
    skipped = [ReplayedFile(one, None, f"the run judges no {one.kind.noun}s (--ops)") for one in left]
    if files:
        announce(f"replaying {counted(len(files), 'file')} of '{common.corpus}' ...")
    setting = Setting(
        target=target or None,
        base=common.base,
        executor=common.executor,
        limit=common.case_limit,
        memory=common.memory_limit,
        announce=announce,
        sweeping=True,
    )
    return msgspec.structs.replace(expected, corpus=[*replay_corpus(files, setting), *skipped])


def _run(
    common: RunOptions,
    group: SubjectOptions,
    shared: Sequence[SubjectOptions],
    or_start: bool,
    together: tuple[str, ...],
    options: dict[str, Any] | None,
    expected: Expectations | None,
    files: tuple[Sequence[CorpusFile], Sequence[CorpusFile]],
    written: Handler,
    began: float,
) -> int:
    """Run a campaign of one subject, which has options of the groups `shared` too. Returns the exit status. `or_start`
    and `together`: see harness.campaign.settings.Settings. `files`: of the corpus, see `_parted`. `began`:
    from when on the budget is counted (`time.monotonic`)."""
    from harness.campaign.settings import Settings
    from harness.kernels.targets.selection import select

    targets = None if common.targets is None else select(common.targets)
    names, subject_of = group.subjects(common, targets, shared)
    replays = time.monotonic()
    expected = _replayed(expected, files, common, names[0])
    began += time.monotonic() - replays  # what was found once is extra
    settings = Settings(
        out=common.out,
        cases=common.cases,
        seconds=common.seconds,
        began=began,
        workers=common.workers,
        memory=common.memory_limit,
        fail_fast=common.fail_fast,
        shrink=not common.no_shrink,
        resume=common.resume,
        or_start=or_start,
        together=together,
        shard=common.shard,
        options=options,
        expectations=expected,
    )
    lines = ("plain-verbose", "plain") if common.plain else ("verbose", "terminal")
    report = "json" if common.json else lines[not common.verbose]
    if targets is not None:
        return follow_several(subject_of, settings, names, report, written)
    return follow(subject_of(names[0]), settings, report, written)


def follow(subject: AnySubject, settings: object, report: str, written: Handler = lambda event: None) -> int:
    """Run a campaign with a report, whose events `written` gets as well. Returns the exit status. Raises Interrupted,
    which says what is left."""
    from harness.campaign import following
    from harness.campaign.campaign import Campaign
    from harness.campaign.events import CampaignFinished, CampaignStarted
    from harness.campaign.journal import CannotResume
    from harness.campaign.settings import Settings
    from harness.reports.registry import reporter

    assert isinstance(settings, Settings)
    status = 4
    try:
        campaign = Campaign(subject, settings, _progress(report))
    except CannotResume as refused:
        raise typer.BadParameter(str(refused), param_hint="--resume") from refused

    with reporter(report) as report_event:

        def handle(event: Event) -> None:
            nonlocal status
            written(event)  # first: nothing may read what is printed
            report_event(event)
            if isinstance(event, CampaignStarted):
                _warn_of_many(event.workers)
            elif isinstance(event, CampaignFinished):
                status = event.summary.exit_status

        try:
            following.follow(campaign, handle)
        except KeyboardInterrupt:
            raise Interrupted(campaign.so_far) from None
    return status


def _progress(report: str) -> Callable[[str], None] | None:
    """What reports the progress: a line on standard error, unless a live view shows it on the same terminal."""
    from harness.reports.terminal import shows_progress

    return None if sys.stderr.isatty() and shows_progress(report) else announce


def _warn_of_many(workers: int) -> None:
    if workers > 2 * (os.cpu_count() or 1):
        announce(
            f"{workers} workers share {os.cpu_count()} processors: they start slowly, and the campaign gets no faster"
        )


def follow_several(subject_of: object, settings: object, targets: Sequence[str], report: str, written: Handler) -> int:
    """Run a campaign on several targets. The exit status is 1 if any has findings, else 3 if any missed something."""
    from harness.campaign.events import Notice
    from harness.campaign.journal import CannotResume
    from harness.campaign.settings import Settings
    from harness.campaign.several import TargetComparison, TargetsInterrupted, run_several
    from harness.reports.compared import comparison_json, print_comparison
    from harness.reports.registry import reporter

    assert isinstance(settings, Settings)
    assert callable(subject_of)

    def notice(event: Event) -> None:
        written(event)
        if isinstance(event, Notice):
            announce(event.text)

    def finish(comparison: TargetComparison) -> None:
        print(comparison_json(comparison), flush=True) if report == "json" else print_comparison(comparison)

    try:
        if report == "json":
            comparison = run_several(subject_of, settings, targets, notice, _progress(report))
        else:
            with reporter(report) as handle:

                def both(event: Event) -> None:
                    written(event)
                    handle(event)

                comparison = run_several(subject_of, settings, targets, both, _progress(report))
    except TargetsInterrupted as interrupted:
        if interrupted.comparison is not None:
            finish(interrupted.comparison)
        raise
    except CannotResume as refused:
        raise typer.BadParameter(str(refused), param_hint="--resume") from refused
    finish(comparison)
    return comparison.exit_status
