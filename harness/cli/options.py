"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from harness.case import CHECKS, DEFAULT_CHECKS, Check, Domain
from harness.cli.announcing import Announcer
from harness.engines.random import AddressPolicy, CheckPolicy, InterleavePolicy, OrderPolicy, WarpPolicy
from harness.generators.operations import OperationName
from harness.suggestions import unknown as unknown_names

if TYPE_CHECKING:
    from harness.campaign.campaign import EngineName
    from harness.engines.relations import RelationPolicy
    from harness.kernels.targets.releases import Package
    from harness.repro import Repro

OPERATIONS: tuple[OperationName, ...] = get_args(OperationName)
_WHEEL_MEGABYTES = 400
"""About what the wheel of a vLLM release has."""

DEFAULT_OPERATIONS: tuple[OperationName, ...] = ("postprocess", "precopy")
"""What is tested unless told otherwise: the kernels that move state."""
ALL = "all"

TargetOption = Annotated[
    str, typer.Option("--target", "-t", help="System under test: builtin, vllm==X, ...; +NAME plants a mutation.")
]
RecordedTargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        help="System under test. Default: the one that the file was found on, if that is builtin or a release; any "
        "other, such as path:DIR, has to be named.",
    ),
]
ExecutorOption = Annotated[
    str | None,
    typer.Option("--executor", "-e", help="How kernels run: cuda, native or interpreter. Default: the fastest here."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")]


def parse_seconds(text: str) -> float:
    """Seconds of `90`, `60s`, `5m` or `2h`. Raises typer.BadParameter."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not match or not 0 < float(match[1]) < math.inf:
        raise typer.BadParameter(f"{text!r} is no time: write 60s, 5m or 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def require_alone(names: Sequence[str], *words: str) -> None:
    """Raise typer.BadParameter if a word that stands for a whole list is part of one."""
    for word in words:
        if word in names and len(names) > 1:
            raise typer.BadParameter(f"{word!r} stands alone: it is a whole list, not one of several names")


def parse_operations(text: str) -> tuple[OperationName, ...]:
    """Names of a comma-separated list, in the order of OPERATIONS; all of them for `all`. Raises typer.BadParameter."""
    if text.strip() == ALL:
        return OPERATIONS
    names = [name.strip() for name in text.split(",") if name.strip()]
    require_alone(names, ALL)
    unknown = [name for name in names if name not in OPERATIONS]
    if unknown or not names:
        raise typer.BadParameter(unknown_names("operation", unknown or [text], (*OPERATIONS, ALL, "sequences")))
    return tuple(name for name in OPERATIONS if name in names)


def parse_domain(text: str) -> tuple[Domain, ...]:
    """`reachable`, `total`, or `both`. Raises typer.BadParameter."""
    if text == "both":
        return ("reachable", "total")
    if text not in ("reachable", "total"):
        raise typer.BadParameter(unknown_names("domain", [text], ("reachable", "total", "both")))
    return (cast(Domain, text),)


def parse_regimes(text: str) -> tuple[str, ...]:
    """Names of a comma-separated list of regimes. Raises typer.BadParameter."""
    from harness.regimes import REGIMES

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in REGIMES]
    if unknown:
        raise typer.BadParameter(unknown_names("regime", unknown, sorted(REGIMES)))
    return names


def parse_engine(text: str) -> EngineName:
    """`random` or `hypothesis`. Raises typer.BadParameter, also if Hypothesis is not installed."""
    if text not in ("random", "hypothesis"):
        raise typer.BadParameter(unknown_names("engine", [text], ("random", "hypothesis")))
    if text == "hypothesis" and importlib.util.find_spec("hypothesis") is None:
        raise typer.BadParameter("the hypothesis engine needs the package hypothesis, which is not installed")
    return cast("EngineName", text)


def parse_relations(text: str) -> RelationPolicy:
    """`sample` (one on every eighth case), `all`, `none`, or names of a comma-separated list, each on every case.

    Raises typer.BadParameter.
    """
    from harness.engines.relations import RelationPolicy, sampled
    from harness.oracles.relations.registry import relations

    if text == "none":
        return RelationPolicy()
    if text in ("sample", "all"):
        everything = tuple(relations())
        return sampled(everything) if text == "sample" else RelationPolicy(everything)
    require_alone([name.strip() for name in text.split(",")], "sample", "all", "none")
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in names if name not in relations()]
    if wrong:
        raise typer.BadParameter(unknown_names("relation", wrong, (*relations(), "sample", "all", "none")))
    if not names:
        raise typer.BadParameter("no relation named; write sample, all, none, or names")
    return RelationPolicy(tuple(dict.fromkeys(names)), required=True)


def parse_checks(text: str) -> tuple[Check, ...]:
    """What an instrumented executor watches: a comma-separated list, `all` or `none`. Raises typer.BadParameter."""
    if text in ("all", "none"):
        return DEFAULT_CHECKS if text == "all" else ()
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    require_alone(names, "all", "none", "vary")
    unknown = [name for name in names if name not in CHECKS]
    if unknown or not names:
        raise typer.BadParameter(unknown_names("check", unknown or [text], (*CHECKS, "all", "none")))
    if "undefined" in names and "memory" not in names:
        raise typer.BadParameter("undefined takes memory: bytes are followed only inside what may be touched")
    if "identical-stores" in names and "races" not in names:
        raise typer.BadParameter("identical-stores takes races")
    return tuple(check for check in CHECKS if check in names)


def parse_check_policy(text: str) -> CheckPolicy:
    """What `parse_checks` takes, or `vary`. Raises typer.BadParameter."""
    return "vary" if text == "vary" else parse_checks(text)


def parse_order(text: str) -> OrderPolicy:
    """The order in which the programs of a launch run. Raises typer.BadParameter."""
    known = get_args(OrderPolicy)
    if text not in known:
        raise typer.BadParameter(unknown_names("order", [text], known))
    return cast(OrderPolicy, text)


def parse_addresses(text: str) -> AddressPolicy:
    """Whether addresses are high. Raises typer.BadParameter."""
    known = get_args(AddressPolicy)
    if text not in known:
        raise typer.BadParameter(unknown_names("addresses", [text], known))
    return cast(AddressPolicy, text)


def parse_interleave(text: str) -> InterleavePolicy:
    """How many programs are under way at a time, or `vary`. Raises typer.BadParameter."""
    if text == "vary":
        return "vary"
    if not text.isascii() or not text.isdigit() or int(text) > 16:
        raise typer.BadParameter(f"{text!r} is no number of programs from 0 to 16, nor vary")
    return int(text)


def parse_warps(text: str) -> WarpPolicy:
    """Whether the warps of a program run together. Raises typer.BadParameter."""
    known = ("together", "apart", "vary")
    if text not in known:
        raise typer.BadParameter(unknown_names("warps", [text], known))
    return cast("WarpPolicy", text)


def case_seconds(text: str | None, executor: str) -> float:
    """The longest time for one operation: natively a second is an eternity, elsewhere compiling takes several."""
    if text is not None:
        return parse_seconds(text)
    return 20.0 if executor == "native" else 120.0


def target_or_default(name: str | None) -> str:
    """The target asked for, or the installed vllm, or our own kernels where there is none."""
    from harness.kernels.targets.base import UnknownTarget
    from harness.kernels.targets.registry import parse

    if name is not None:
        return name
    try:
        return parse("vllm").text
    except UnknownTarget:
        return "builtin"


def executor_or_default(name: str | None) -> str:
    """The executor asked for, or the fastest that this machine has. Raises UnavailableExecutor."""
    from harness.kernels.executors.registry import default_executor_name, executor_class

    if name is None:
        return default_executor_name()
    executor_class(name)
    return name


announce = Announcer()


def announce_downloads(targets: Sequence[str], package: Package | None = None) -> None:
    """Say how much the releases among `targets` are to download, if it is more than one of them; `package` is what is
    kept of each, by default its kernels."""
    from harness.kernels.targets.releases import listed, offline
    from harness.kernels.targets.selection import release_of
    from harness.kernels.targets.vllm.sources import VLLM

    releases = {str(release) for target in targets if (release := release_of(target)) is not None}
    absent = [release for release in releases if listed(package or VLLM, release) is None]
    if len(absent) > 1 and not offline():
        size = len(absent) * _WHEEL_MEGABYTES / 1000
        announce(
            f"{len(absent)} releases are not in the cache: wheels of about {size:.1f} GB in all are downloaded once"
        )


def callback(parse: Any) -> Any:
    """A typer callback that keeps the text but refuses what `parse` refuses."""

    def check(text: str | None) -> str | None:
        if text is not None:
            parse(text)
        return text

    return check


CaseLimitOption = Annotated[
    str | None,
    typer.Option(
        "--case-limit",
        help="Longest time for one operation before it counts as a hang, or for one step sequence. [default: 20s "
        "natively, else 120s; sequences 120s]",
        callback=callback(parse_seconds),
    ),
]

_CHECKS_HELP = (
    "What the native executor watches beside the bytes, comma-separated: memory (accesses outside what may be "
    "touched), undefined (numbers nobody defined that decide something), races, identical-stores (races that store "
    "one value); all (the first three); none"
)

ChecksOption = Annotated[
    str,
    typer.Option(
        "--checks",
        help=f"{_CHECKS_HELP}; or vary: all, but undefined only in every fourth case.",
        callback=callback(parse_check_policy),
    ),
]

ReplayChecksOption = Annotated[
    str | None,
    typer.Option("--checks", help=f"{_CHECKS_HELP}. [default: what the file says]", callback=callback(parse_checks)),
]


def with_checks(repro: Repro, text: str | None) -> Repro:
    """A repro whose case is watched as `--checks` says, if it says anything."""
    import msgspec

    if text is None:
        return repro
    execution = msgspec.structs.replace(repro.case.execution, checks=parse_checks(text))
    return msgspec.structs.replace(repro, case=msgspec.structs.replace(repro.case, execution=execution))
