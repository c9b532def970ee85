"""The options of `harness run` that apply only to kernel cases."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

import typer

from harness.case import Domain
from harness.cli import options
from harness.cli.options import ALL, CHECKS_HELP, NONE, announce, choice, choices, option
from harness.cli.run_options import RunOptions
from harness.engines.random import AddressPolicy, CheckPolicy, InterleavePolicy, OrderPolicy
from harness.generators.kinds.kind import KindName
from harness.generators.kinds.registry import KINDS

OPERATIONS: tuple[KindName, ...] = tuple(KINDS)
COPIES: tuple[KindName, ...] = ("postprocess", "precopy")
"""The kernels that move state."""
VARY: Literal["vary"] = "vary"

_DOMAINS: dict[str, tuple[Domain, ...]] = {
    "reachable": ("reachable",),
    "total": ("total",),
    "both": ("reachable", "total"),
}


def kernel_operations(names: Sequence[str] | None) -> tuple[KindName, ...]:
    """The kernel operations among the words of `--ops`, in the order of OPERATIONS; None: all of them."""
    every = names is None or list(names) == [ALL]
    return OPERATIONS if every else tuple(name for name in OPERATIONS if name in (names or ()))


def parse_domain(text: str) -> tuple[Domain, ...]:
    """`reachable`, `total`, or `both`. Raises typer.BadParameter."""
    return _DOMAINS[choice("domain", _DOMAINS)(text)]


def parse_regimes(text: str) -> tuple[str, ...]:
    """Names of a comma-separated list of regimes, or `all`. Raises typer.BadParameter."""
    from harness.regimes import REGIMES

    return choices("regime", text, sorted(REGIMES), ALL) if text else ()


def parse_engine(text: str) -> str:
    """`random` or `hypothesis`. Raises typer.BadParameter, also if Hypothesis is not installed."""
    engine = choice("engine", ("random", "hypothesis"))(text)
    if engine == "hypothesis" and importlib.util.find_spec("hypothesis") is None:
        raise typer.BadParameter("the hypothesis engine needs the package hypothesis, which is not installed")
    return engine


def parse_relations(text: str) -> Any:
    """`sample` (one on every eighth case), `all`, `none`, or names of a comma-separated list, each on every case.

    Raises typer.BadParameter.
    """
    from harness.engines.relations import RelationPolicy, sampled
    from harness.oracles.relations.registry import relations

    everything = tuple(relations())
    names = choices("relation", text, everything, "sample", ALL, NONE)
    whole = {("sample",): sampled(everything), (ALL,): RelationPolicy(everything), (NONE,): RelationPolicy()}
    return whole[names] if names in whole else RelationPolicy(names, required=True)


def parse_check_policy(text: str) -> CheckPolicy:
    """What `parse_checks` accepts, or `vary`. Raises typer.BadParameter."""
    return VARY if text == VARY else options.parse_checks(text)


def parse_interleave(text: str) -> InterleavePolicy:
    """How many programs are in flight at a time, or `vary`. Raises typer.BadParameter."""
    if text == VARY:
        return VARY
    if not text.isascii() or not text.isdigit() or int(text) > 16:
        raise typer.BadParameter(f"{text!r} is neither a number of programs from 0 to 16 nor vary")
    return int(text)


_PARSERS: dict[str, Callable[[str], Any]] = {
    "domain": parse_domain,
    "require": parse_regimes,
    "relations": parse_relations,
    "engine": parse_engine,
    "checks": parse_check_policy,
    "interleave": parse_interleave,
}
"""Parsers of options whose values are not texts."""


@dataclass(frozen=True, kw_only=True)
class CaseOptions:
    """How kernel cases are drawn and watched."""

    SUBJECT: ClassVar[str] = "case"
    HEADING: ClassVar[str] = "Kernel operations"
    ONLY: ClassVar[str] = "not with step sequences alone, to which it does not apply"
    PLACE: ClassVar[int] = 0
    SHARES: ClassVar[tuple[type, ...]] = ()

    domain: Annotated[
        Any,
        option(
            "--domain",
            parser=parse_domain,
            metavar="DOMAIN",
            help="reachable: what a scheduler can produce; total: all that the kernels' specification covers; both.",
        ),
    ] = "both"
    require: Annotated[
        Any,
        option(
            "--require",
            parser=parse_regimes,
            metavar="NAMES",
            help="Regimes (`harness names`) that judged cases must reach, comma-separated, else status 3; all: each "
            "that the target takes.",
        ),
    ] = ""
    relations: Annotated[
        Any,
        option(
            "--relations",
            parser=parse_relations,
            metavar="NAMES",
            help="Relations between runs to check for each case, comma-separated (`harness names` lists them); all; "
            "none; or sample: one on every eighth case.",
        ),
    ] = "sample"
    engine: Annotated[
        Any,
        option(
            "--engine",
            parser=parse_engine,
            metavar="ENGINE",
            help="Where cases come from: random (seed and number give the case), or hypothesis (a search; one worker).",
        ),
    ] = "random"
    scale: Annotated[
        Any,
        option(
            "--scale",
            parser=choice("scale", ("small", "full")),
            metavar="SCALE",
            help="small or full cases. Default: small for the interpreter.",
        ),
    ] = None
    checks: Annotated[
        Any,
        option(
            "--checks",
            parser=parse_check_policy,
            metavar="NAMES",
            help=f"{CHECKS_HELP}; or vary: all, but undefined only in every fourth case.",
        ),
    ] = VARY
    order: Annotated[
        Any,
        option(
            "--order",
            parser=choice("order", get_args(OrderPolicy)),
            metavar="ORDER",
            help="Order in which the programs of a launch run, natively: natural, reversed, shuffled, or vary by case.",
        ),
    ] = VARY
    addresses: Annotated[
        Any,
        option(
            "--addresses",
            parser=choice("addresses", get_args(AddressPolicy)),
            metavar="KIND",
            help="Whether addresses have their highest bit set, natively: low, high, or vary by layout.",
        ),
    ] = VARY
    warps: Annotated[
        Any,
        option(
            "--warps",
            parser=choice("warps", ("together", "apart", VARY)),
            metavar="HOW",
            help="Whether the warps of a program run together (in lockstep) or apart (independently, by a schedule "
            "drawn from a seed), natively; or vary: apart in every sixteenth case.",
        ),
    ] = VARY
    interleave: Annotated[
        Any,
        option(
            "--interleave",
            parser=parse_interleave,
            metavar="NUMBER",
            help="Programs of a launch in flight at a time, natively, switched before each load and store: 0 (one "
            "after the other) to 16, or vary: 4 in every eighth case.",
        ),
    ] = VARY

    def __post_init__(self) -> None:
        """Parse defaults that are still texts, if it is made without a command line. Raises typer.BadParameter."""
        for name, parse in _PARSERS.items():
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, parse(value))

    @classmethod
    def operations(cls) -> Sequence[str]:
        return OPERATIONS

    def wanted(self, run: RunOptions) -> bool:
        wanted = bool(kernel_operations(run.ops))
        if wanted and self.engine == "hypothesis":
            if run.targets is not None:
                raise typer.BadParameter(
                    "the hypothesis engine learns from one target: it cannot give several the same cases"
                )
            if run.workers > 1:
                raise typer.BadParameter("the hypothesis engine has one worker: it learns from what it has tried")
            if run.resume:
                raise typer.BadParameter("the hypothesis engine cannot resume: its cases do not follow from a seed")
        return wanted

    def _require_reach(self, domains: Sequence[Domain], operations: Sequence[str]) -> None:
        """Raises typer.BadParameter for a required regime that no case of the run can be in."""
        from harness.kernel_cases.subject import EVERY_REGIME
        from harness.regimes.reach import out_of_reach

        for name in () if self.require == EVERY_REGIME else self.require:
            why = out_of_reach(name, domains, operations)
            if why is not None:
                raise typer.BadParameter(f"--require {name}: no case of this run can reach it: {why}")

    def subjects(
        self, run: RunOptions, targets: Sequence[str] | None, shared: Sequence[Any] = ()
    ) -> tuple[list[str], Callable[[str], Any]]:
        from harness.engines.random import Recipe
        from harness.kernel_cases.comparison import compared
        from harness.kernel_cases.subject import KernelCases, case_seconds
        from harness.kernels.targets.download_size import announce_downloads
        from harness.kernels.targets.registry import prepare

        names = [options.target_or_default(run.target)] if targets is None else list(targets)
        options.require_base(run.base, names)
        announce_downloads(names, announce)
        for name in names:
            prepare(name, announce)
        executor = options.executor_or_default(run.executor)
        recipe = Recipe(
            seed=run.seed,
            domains=self.domain,
            operations=kernel_operations(run.ops),
            scale=("small" if executor == "interpreter" else "full") if self.scale is None else self.scale,
            order=self.order,
            checks=self.checks,
            addresses=self.addresses,
            interleave=self.interleave,
            warps=self.warps,
        )

        self._require_reach(recipe.domains, recipe.operations)

        def subject(target: str) -> KernelCases:
            return KernelCases(
                target=target,
                executor=executor,
                limit=case_seconds(executor) if run.case_limit is None else run.case_limit,
                recipe=recipe,
                engine=self.engine,
                require=self.require,
                named=run.named,
                relations=self.relations,
                comparison=compared(target, options.base_for(run.base, target), announce),
            )

        return names, subject
