"""The options of `harness run` that apply only to whole engines; pins and fixes are those of step sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from harness.cli import options
from harness.cli.options import announce
from harness.cli.run_options import RunOptions
from harness.cli.sequence_options import SequenceOptions

ENGINE = "engine"
"""The word of `--ops` for whole engines."""


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Whose engine runs."""

    SUBJECT: ClassVar[str] = "engine"
    HEADING: ClassVar[str] = "Whole engines"
    ONLY: ClassVar[str] = "only with --ops engine"
    PLACE: ClassVar[int] = 2
    SHARES: ClassVar[tuple[type, ...]] = (SequenceOptions,)

    python: Annotated[
        str | None,
        typer.Option(
            "--python", help="An interpreter whose environment has vLLM, used instead of what `harness engine` made."
        ),
    ] = None

    @classmethod
    def operations(cls) -> Sequence[str]:
        return (ENGINE,)

    def wanted(self, run: RunOptions) -> bool:
        return run.ops is not None and ENGINE in run.ops

    def subjects(
        self, run: RunOptions, targets: Sequence[str] | None, shared: Sequence[Any] = ()
    ) -> tuple[list[str], Callable[[str], Any]]:
        from harness.case import InvalidCase
        from harness.end_to_end.offers import offers_within
        from harness.sequences.subject import sequence_target

        drawing = next((group for group in shared if isinstance(group, SequenceOptions)), SequenceOptions())
        if run.ops == [ENGINE]:
            if drawing.on_bytes or drawing.cases_out is not None:
                raise typer.BadParameter("--bytes and --cases-out: only with --ops sequences")
            if run.executor is not None:
                raise typer.BadParameter("--executor: an engine's kernels run natively")
        if drawing.include_known and drawing.fixes is not None:
            raise typer.BadParameter("--include-known and --fixes exclude each other: the former means --fixes none")
        try:
            offers_within(drawing.pins)
        except InvalidCase as impossible:
            raise typer.BadParameter(str(impossible), param_hint="--pins") from impossible
        names = [run.target or ""] if targets is None else list(targets)
        options.require_base(run.base, [sequence_target(name.partition("+")[0]) for name in names])
        return names, lambda target: self._subject(run, target, drawing)

    def _subject(self, run: RunOptions, target: str, drawing: SequenceOptions) -> Any:
        """Set up the subject. A plus sign in the target is followed by a fault for the release's fused kernels."""
        from harness.end_to_end.builds import build_of
        from harness.end_to_end.engine_process import LIMIT_SECONDS
        from harness.end_to_end.recipe import EngineRecipe
        from harness.end_to_end.subject import WholeEngines
        from harness.issues.registry import DEFAULT_FIXES
        from harness.kernels.mutations.registry import mutation
        from harness.sequences.controls import Controls
        from harness.sequences.subject import base_release, sequence_target

        name, _, planted = target.partition("+")
        faults = tuple(filter(None, planted.split("+")))
        for fault in faults:
            mutation(fault)
        chosen = sequence_target(name)
        build = build_of(chosen, announce, self.python)
        fixes = () if drawing.include_known else DEFAULT_FIXES if drawing.fixes is None else drawing.fixes
        subject = WholeEngines(
            target=chosen,
            build=build,
            recipe=EngineRecipe(run.seed, drawing.pins),
            controls=Controls(fixes=fixes),
            faults=faults,
            limit=LIMIT_SECONDS if run.case_limit is None else run.case_limit,
            base=base_release(chosen, options.base_for(run.base, chosen), announce),
        )
        announce(f"loading {build.description} ...")
        return subject
