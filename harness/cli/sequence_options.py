"""The options of `harness run` that apply only to step sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import msgspec
import typer

from harness.cli import options
from harness.cli.options import ALL, NONE, announce, choices, option
from harness.cli.run_options import RunOptions
from harness.suggestions import unknown

SEQUENCES = "sequences"
"""The word of `--ops` for step sequences."""


def parse_pins(text: str) -> Any:
    """Pins of `name=value` pairs, comma-separated: runner=V1,asynchronous=true,retention=dense,...

    Raises typer.BadParameter.
    """
    from harness.generators.sequences.configurations import Pins

    values: dict[str, object] = {}
    for pair in options.split(text):
        name, equals, value = pair.partition("=")
        if not equals or name not in Pins.__struct_fields__:
            raise typer.BadParameter(
                f"{pair!r} is not a pin; write NAME=VALUE with {', '.join(Pins.__struct_fields__)}"
            )
        if name in values:
            raise typer.BadParameter(f"{name} is pinned twice")
        if value not in (known := _known_values(name)):
            raise typer.BadParameter(unknown(name, [value], known))
        values[name] = {"true": True, "false": False}.get(value, int(value) if value.isdigit() else value)
    try:
        return msgspec.convert(values, Pins)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(str(error)) from error


def _known_values(name: str) -> tuple[str, ...]:
    """The values that a pin may have."""
    from harness.generators.sequences.configurations import Pins

    kinds = [kind for kind in get_args(get_type_hints(Pins)[name]) if kind is not type(None)]
    return ("true", "false") if kinds == [bool] else tuple(str(value) for kind in kinds for value in get_args(kind))


def parse_fixes(text: str) -> tuple[str, ...]:
    """Names of known issues, comma-separated, `all` or `none`. Raises typer.BadParameter."""
    from harness.issues.registry import DEFAULT_FIXES, current_name

    names = choices("fix", ",".join(map(current_name, options.split(text))), DEFAULT_FIXES, ALL, NONE)
    if names in ((ALL,), (NONE,)):
        return DEFAULT_FIXES if names == (ALL,) else ()
    return tuple(name for name in DEFAULT_FIXES if name in names)


@dataclass(frozen=True, kw_only=True)
class SequenceOptions:
    """How step sequences are drawn, and which known issues they avoid."""

    SUBJECT: ClassVar[str] = "sequence"
    HEADING: ClassVar[str] = "Step sequences"
    ONLY: ClassVar[str] = "only with --ops sequences"
    PLACE: ClassVar[int] = 1
    SHARES: ClassVar[tuple[type, ...]] = ()

    fixes: Annotated[
        Any,
        option(
            "--fixes",
            parser=parse_fixes,
            metavar="NAMES",
            help="Known issues to avoid, comma-separated (`harness names fixes`); all, or none. [default: all]",
        ),
    ] = None
    include_known: Annotated[
        bool, typer.Option("--include-known", help="Do not avoid known issues, and classify what they cause.")
    ] = False
    pins: Annotated[
        Any,
        option(
            "--pins",
            parser=parse_pins,
            metavar="PINS",
            help="Axes that are not drawn: runner=V1,retention=dense,... (`harness names pins`)",
        ),
    ] = ""
    on_bytes: Annotated[
        bool,
        typer.Option("--bytes", help="Run the target's kernels as well, and compare every byte after each step."),
    ] = False
    cases_out: Annotated[
        Path | None,
        typer.Option("--cases-out", help="A folder for their kernel cases, which `harness replay` runs."),
    ] = None

    def __post_init__(self) -> None:
        """Parse defaults that are still texts, if it is made without a command line. Raises typer.BadParameter."""
        for name, parse in (("fixes", parse_fixes), ("pins", parse_pins)):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, parse(value))

    @classmethod
    def operations(cls) -> Sequence[str]:
        return (SEQUENCES,)

    def wanted(self, run: RunOptions) -> bool:
        if self.include_known and self.fixes is not None:
            raise typer.BadParameter("--include-known and --fixes exclude each other: the former means --fixes none")
        wanted = run.ops is not None and SEQUENCES in run.ops
        if wanted and run.ops == [SEQUENCES] and run.executor is not None and not self.on_bytes:
            raise typer.BadParameter("--executor says how kernels run, and sequences run them only with --bytes")
        return wanted

    def subjects(
        self, run: RunOptions, targets: Sequence[str] | None, shared: Sequence[Any] = ()
    ) -> tuple[list[str], Callable[[str], Any]]:
        from harness.files import require_writable
        from harness.sequences.subject import sequence_target

        if self.cases_out is not None:
            if targets is not None:
                raise typer.BadParameter("--cases-out takes one --target: several would write the same files")
            require_writable(self.cases_out)
            self.cases_out.mkdir(parents=True, exist_ok=True)
        names = [run.target or ""] if targets is None else list(targets)
        options.require_base(run.base, [sequence_target(name) for name in names])
        defaults: list[Any] | None = None if targets is None else []
        return names, lambda target: self._subject(run, target, defaults)

    def _subject(self, run: RunOptions, target: str, shared: list[Any] | None) -> Any:
        """Set up the subject; `shared` holds the defaults that several targets share.

        A plus sign in the target is followed by a planted fault of sequences, or else by a mutation of the kernels.
        """
        from harness.issues.registry import DEFAULT_FIXES
        from harness.kernels.targets.registry import prepare
        from harness.sequences.controls import Controls
        from harness.sequences.faults import FAULTS
        from harness.sequences.kernels import KernelChoice, KernelSide
        from harness.sequences.recipe import SequenceRecipe
        from harness.sequences.subject import StepSequences, base_release, require_driven, sequence_target
        from harness.sequences.worker import LIMIT_SECONDS

        name, _, planted = target.partition("+")
        faults = tuple(filter(None, planted.split("+")))
        mutations = [fault for fault in faults if fault not in FAULTS] if self.on_bytes else []
        chosen = sequence_target(name)
        origin = require_driven(chosen, announce)
        base = base_release(chosen, options.base_for(run.base, chosen), announce)
        if name == "builtin" and not self.on_bytes:
            announce(f"builtin has no scheduler: that of {chosen} runs, and no kernels without --bytes")
        kernels = None
        if self.on_bytes:
            kernels = KernelChoice("+".join([name or chosen, *mutations]), options.executor_or_default(run.executor))
            prepare(kernels.target, announce)
        fixes = () if self.include_known else DEFAULT_FIXES if self.fixes is None else self.fixes
        subject = StepSequences(
            target=chosen,
            recipe=SequenceRecipe(run.seed, self.pins),
            controls=Controls(faults=tuple(fault for fault in faults if fault not in mutations), fixes=fixes),
            kernel_side=KernelSide(kernels, None if self.cases_out is None else str(self.cases_out.resolve())),
            limit=LIMIT_SECONDS if run.case_limit is None else run.case_limit,
            named_fixes=() if fixes == DEFAULT_FIXES else fixes,
            base=base,
            shared_defaults=shared,
        )
        announce(f"loading {origin} ...")
        return subject
