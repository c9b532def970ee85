"""The options of `harness run` that apply to every subject, and what a subject has to add to be one of its choices."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

import typer

from harness.cli.options import (
    ALL,
    BaseOption,
    CaseLimitOption,
    JsonOption,
    MemoryLimitOption,
    option,
    parse_path,
    parse_seconds,
    require_alone,
    split,
)
from harness.subject.registry import AnySubject
from harness.suggestions import unknown

DEFAULT_SECONDS = 60.0


def parse_budget(text: str) -> float:
    """Seconds, as `parse_seconds` reads them, or none. Raises typer.BadParameter."""
    return 0.0 if is_nothing(text) else parse_seconds(text)


def is_nothing(text: str) -> bool:
    """Whether a budget is that of a run that judges nothing."""
    return re.fullmatch(r"0+(\.0+)?\s*[smh]?", str(text).strip()) is not None


def parse_part(text: str) -> Any:
    """The shard that `2/3` names. Raises typer.BadParameter."""
    from harness.campaign.shard import parse_shard

    try:
        return parse_shard(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What is tested, for how long, and where findings go."""

    LAST: ClassVar[tuple[str, ...]] = (
        *(
            "known",
            "baseline",
            "corpus",
            "profile",
            "config",
            "shard",
            "ray",
            "shards",
            "no_shrink",
            "targets",
            "report",
            "base",
            "executor",
            "case_limit",
            "memory_limit",
            "verbose",
            "plain",
        ),
    )

    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            help="System under test: builtin, vllm==X, vllm, path:DIR; +NAME plants a fault. [default: the installed "
            "vllm, else builtin]",
        ),
    ] = None
    ops: Annotated[
        Any,
        option(
            "--ops",
            parser=split,
            metavar="NAMES",
            help="Operations (`harness names`), comma-separated; all: those that the target has; sequences: step "
            "sequences driven by a release's scheduler; engine: those on a whole engine. [default: all]",
        ),
    ] = None
    budget: Annotated[
        float | None,
        option(
            "--budget",
            parser=parse_budget,
            metavar="TIME",
            help="How long the command takes, with shrinking: 60s, 5m, 2h. With --resume it starts again; 0 judges no "
            "more, and shrinks to the end. [default: 60s]",
        ),
    ] = None
    cases: Annotated[
        int | None,
        typer.Option(
            "--cases", help="Number of cases, instead of --budget; with --resume, of both parts.", min=1, metavar="N"
        ),
    ] = None
    seed: Annotated[
        int, typer.Option("--seed", help="The same seed gives the same cases.", min=0, max=2**63 - 1, metavar="N")
    ] = 0
    workers: Annotated[int, typer.Option("--workers", "-j", help="Worker processes.", min=1, max=256, metavar="N")] = 1
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Judge no more after the first finding.")] = False
    out: Annotated[
        Any, option("--out", parser=parse_path, metavar="FOLDER", help="Folder for repro files and the journal.")
    ] = Path("findings")
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            "--resume-sequences",
            help="Resume the campaign in --out, with the same options, or that in FOLDER, which knows them. "
            "(--resume-sequences is its old name.)",
        ),
    ] = False
    shard: Annotated[
        Any,
        option(
            "--shard",
            parser=parse_part,
            metavar="I/N",
            help="Judge only part I of N of the cases, on one of N machines; `harness merge` puts the parts together.",
        ),
    ] = None
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="ADDRESS",
            help="Judge --shards on the nodes of a Ray cluster (auto, HOST:PORT, ray://HOST:PORT; local: one on this "
            "machine), and end here as one run ends. Needs the package ray.",
        ),
    ] = None
    shards: Annotated[
        int | None, typer.Option("--shards", min=1, max=10_000, metavar="N", help="Into how many parts. [default: 16]")
    ] = None
    json: JsonOption = False
    no_shrink: Annotated[bool, typer.Option("--no-shrink", help="Keep findings as they were drawn.")] = False
    targets: Annotated[
        str | None,
        typer.Option("--targets", help="Several targets, comma-separated, on the same cases: 'vllm>=0.31,builtin'."),
    ] = None
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            metavar="NAME=FILE",
            help="Also write the result as a page (html=FILE) or for other programs (junit=FILE, sarif=FILE, "
            "markdown=FILE, jsonl=FILE, or github, which takes no file); may be given several times.",
        ),
    ] = None
    known: Annotated[
        Path | None,
        typer.Option(
            "--known",
            metavar="FILE",
            help="Mute the findings that this file lists, each with a reason (docs/nightly.md): they are reported, and "
            "do not make status 1.",
        ),
    ] = None
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            metavar="FOLDER",
            help="The folder of an earlier campaign: only findings that it does not have make status 1.",
        ),
    ] = None
    corpus: Annotated[
        Path | None,
        typer.Option(
            "--corpus",
            metavar="FOLDER",
            help="Replay the repro files of this folder first, on the target of the run; one that FAILED makes status "
            "1.",
        ),
    ] = None
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", metavar="NAME", help="Take options from [profile.NAME] of harness.toml; others override them."
        ),
    ] = None
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Another file of profiles than harness.toml.")
    ] = None
    base: BaseOption = None
    executor: Annotated[
        str | None,
        typer.Option(
            "--executor", "-e", help="How kernels run: cuda, native or interpreter. Default: the fastest here."
        ),
    ] = None
    case_limit: CaseLimitOption = None
    memory_limit: MemoryLimitOption = None
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Name regimes and kernel lines that were not reached, as --json does."),
    ] = False
    plain: Annotated[
        bool,
        typer.Option(
            "--plain", help="On a terminal too, only lines that stay, and one on the progress every half minute."
        ),
    ] = False

    @property
    def seconds(self) -> float | None:
        """The budget; None if a number of cases is given."""
        if self.cases is not None:
            return None
        return DEFAULT_SECONDS if self.budget is None else self.budget

    @property
    def named(self) -> bool:
        """Whether the user named operations."""
        return self.ops is not None and self.ops != [ALL]


def require_operations(names: Sequence[str] | None, known: Sequence[str]) -> None:
    """Raise typer.BadParameter if `--ops` has unknown words, no word, or the word for a whole list among others."""
    if names is not None:
        require_alone(names, ALL)
        wrong = [name for name in names if name not in (*known, ALL)]
        if wrong or not names:
            raise typer.BadParameter(unknown("operation", wrong or [""], (*known, ALL)))


class SubjectOptions(Protocol):
    """A group of options for one subject; a data class."""

    SUBJECT: ClassVar[str]
    """The `name` of the subject."""
    HEADING: ClassVar[str]
    ONLY: ClassVar[str]
    """Why its options are refused if the subject is not selected."""
    PLACE: ClassVar[int]
    """The position of its options in the help."""
    SHARES: ClassVar[tuple[type, ...]]
    """Groups of other subjects whose options are its own as well."""

    @classmethod
    def operations(cls) -> Sequence[str]:
        """The words of `--ops` that belong to it."""

    def wanted(self, run: RunOptions) -> bool:
        """Whether the options select this subject. Raises typer.BadParameter if they make no sense."""

    def subjects(
        self, run: RunOptions, targets: Sequence[str] | None, shared: Sequence[Any] = ()
    ) -> tuple[list[str], Callable[[str], AnySubject]]:
        """Targets, and a function that sets the subject up for one of them, with downloads. `targets` are those that
        the user named; None: one, or the default. `shared` are the groups of SHARES. Raises typer.BadParameter or
        Refusal."""
