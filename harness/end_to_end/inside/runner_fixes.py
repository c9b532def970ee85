"""Fixes of a running engine: known issues are taken out of a release's own code, as step sequences take them out.

A fix is a change of an issue (`harness/issues/change.py`). What it does to scheduler and block manager it does here as
it does there: they are the release's own in both. Where it changes a rule of our model of the runner, the runner itself
is changed here, by the rule's name (RULES): inputs of one of its functions, or what comes out.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.case.sequence import SequenceCase, SequenceConfig
from harness.end_to_end.inside.accepted_counts import AcceptedCounts
from harness.end_to_end.inside.engine import RunningEngine
from harness.issues.engine_changes import rewrite_schedule
from harness.issues.registry import SEQUENCE_ISSUES, applicable
from harness.issues.sequence_issue import SequenceIssue
from harness.kernels.targets.vllm.scheduling.loading import use_imported
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.rules_v1 import rules_v1

_CHECKPOINT = "vllm.model_executor.layers.mamba.checkpoint"


class CannotFix(Exception):
    """The fix of an issue that a sequence can reach has no form for a running engine; the message names it."""


class EngineView:
    """A running engine as changes of issues see one (kernels/targets/vllm/scheduling/engine.py)."""

    def __init__(self, engine: RunningEngine, config: SequenceConfig) -> None:
        self.config = config
        self.core = engine.core
        self.runner = engine.runner
        self.scheduler = engine.scheduler
        self.manager = engine.scheduler.kv_cache_manager
        self.vllm_config = engine.core.vllm_config
        queue = getattr(engine.core, "batch_queue", None)
        self.in_flight: deque[Any] = deque() if queue is None else queue
        """Steps whose output the scheduler does not have yet: the core's own queue, empty where it has none."""
        kinds = [kind for kind, _ in engine.facts().groups]
        self.mamba_groups = tuple(i for i, kind in enumerate(kinds) if kind == "mamba")
        self.attention_groups = tuple(i for i, kind in enumerate(kinds) if kind != "mamba")
        self.undo: list[Callable[[], None]] = []
        """What takes back changes that are not this engine's alone."""

    @functools.cached_property
    def accepted(self) -> AcceptedCounts:
        """Accepted counts by request, noted from the first use on."""
        return AcceptedCounts(self.runner)

    def reset(self, running: bool) -> bool:
        """Clear the prefix cache."""
        return bool(self.core.reset_prefix_cache(running))


@contextlib.contextmanager
def switched_on(engine: RunningEngine, case: SequenceCase, fixes: Sequence[str]) -> Iterator[None]:
    """With those of `fixes` whose issue the case can reach, until the engine has run. Raises CannotFix."""
    import vllm

    names = applicable(fixes, case)
    view = EngineView(engine, case.config)
    if names:
        use_imported(Path(vllm.__file__).parents[1], f"vllm {vllm.__version__}")
    try:
        for issue in SEQUENCE_ISSUES:
            if issue.name in names:
                _switch_on(issue, view)
        yield
    finally:
        for undo in reversed(view.undo):
            undo()


def _switch_on(issue: SequenceIssue, view: EngineView) -> None:
    release = rules_v1()
    for field in differing(release, issue.change.rules(release)):
        if field not in RULES:
            raise CannotFix(f"the fix of {issue.name} has no form for a running engine")
        RULES[field](view)
    issue.change.engine(view)
    if "reset" in vars(view):  # only our loop of step sequences resets by this function
        raise CannotFix(f"the fix of {issue.name} has no form for a running engine")


def differing(one: RunnerRules, other: RunnerRules) -> list[str]:
    """The fields of two records of rules that differ."""
    return [name for name in one.__dataclass_fields__ if getattr(one, name) != getattr(other, name)]


# Rules of the runner.


def _keep_accepted(view: EngineView) -> None:
    """A row that comes back to the batch without having been preempted gets its accepted count back."""
    runner, counts = view.runner, view.accepted
    counts.keeps_left_out = True
    update = runner._update_states

    def updated(output: Any, *arguments: Any, **named: Any) -> Any:
        batch = runner.input_batch
        before = set(batch.req_id_to_index)
        result = update(output, *arguments, **named)
        for name, row in batch.req_id_to_index.items():
            if name not in before:
                batch.num_accepted_tokens_cpu[row] = counts.left_out(name)
        return result

    runner._update_states = updated


def _count_by_request(view: EngineView) -> None:
    """Each row gets the accepted count of its request. `_prepare_inputs` waits for the copy to the host, and then looks
    counts up by the rows of the step before; or by those of now, where no request that sampled in that step is left. A
    copy that landed early has moved with its rows since then, one that lands late has not. So the result is replaced
    behind it; what moves states takes it from there."""
    runner, counts = view.runner, view.accepted
    prepare = runner._prepare_inputs

    def prepared(*arguments: Any, **named: Any) -> Any:
        result = prepare(*arguments, **named)
        batch = runner.input_batch
        for row, name in enumerate(batch.req_ids):
            batch.num_accepted_tokens_cpu[row] = counts.of(name)
        return result

    runner._prepare_inputs = prepared


def _trust_delivered(view: EngineView) -> None:
    """With no step in flight the scheduler's counts are exact. What `_update_states` returns then would correct them
    once more, for drafts that the scheduler knows to be rejected; so it is dropped. (Rows whose output is delivered
    while another step is in flight were left out of that one, and are not corrected.)"""
    runner = view.runner
    update = runner._update_states

    def updated(*arguments: Any, **named: Any) -> Any:
        corrections = update(*arguments, **named)
        return corrections if view.in_flight else None

    runner._update_states = updated


def _start_empty(view: EngineView) -> None:
    """A request of which nothing is computed is not padded with drafts. (The symbolic device lets such rows decode from
    an empty state instead; there is nothing that tells a layer so.)"""
    since, before = (
        "and (scheduled_running_reqs or num_computed_tokens > 0)",
        "and (scheduled_running_reqs and not prefill_scheduled)",
    )
    if not rewrite_schedule(view, (since, "and num_computed_tokens > 0")):
        rewrite_schedule(view, (before, f"{before} and num_computed_tokens > 0"))


def _checkpoints_with_blocks(view: EngineView) -> None:
    """A chunk exports a checkpoint only if the block manager keeps a block for it. Rows that prefill are the last ones
    of a batch, in its order."""
    checkpoint: Any = importlib.import_module(_CHECKPOINT)
    compute = checkpoint.compute_mamba_prefill_checkpoints
    manager = view.manager.coordinator.single_type_managers[view.mamba_groups[0]]
    batch = view.runner.input_batch

    def computed(lengths: list[int], *arguments: Any, **named: Any) -> tuple[list[int], list[int]]:
        offsets, columns = compute(lengths, *arguments, **named)
        kept = [name in manager._checkpoints for name in batch.req_ids[batch.num_reqs - len(lengths) :]]
        return (
            [offset if keep else 0 for offset, keep in zip(offsets, kept, strict=True)],
            [column if keep else -1 for column, keep in zip(columns, kept, strict=True)],
        )

    checkpoint.compute_mamba_prefill_checkpoints = computed
    view.undo.append(lambda: setattr(checkpoint, "compute_mamba_prefill_checkpoints", compute))


PromptEnd = Callable[[int, int, int, int], int | None]
"""Where the prompt of a row ends for the order of the batch; None: where it does. Of computed, scheduled, draft and
prompt tokens."""


def _tail(computed: int, scheduled: int, drafts: int, prompt: int) -> int | None:
    """The last token of a prompt, padded with drafts, is a decode: its prompt is over."""
    return computed if 0 < computed < prompt and drafts and drafts == scheduled - 1 else None


def _recomputed(computed: int, scheduled: int, drafts: int, prompt: int) -> int | None:
    """Outputs that are computed again are part of what the row prefills."""
    return computed + scheduled if computed >= prompt and scheduled > 1 and not drafts else None


def _decode_tails(view: EngineView) -> None:
    """Padded tails are sorted to the decodes of a batch. (Layers take them for decodes if they stand there.)"""
    _sort_by(view, _tail, metadata=False)


def _prefill_recomputed(view: EngineView) -> None:
    """A row that computes outputs again is sorted to the prefills, and layers are given it as one."""
    _sort_by(view, _recomputed, metadata=True)


def _sort_by(view: EngineView, rule: PromptEnd, *, metadata: bool) -> None:
    """Let the batch be sorted by other ends of prompts, and with `metadata` layers be given rows by them, too."""
    runner = view.runner
    sort, build = runner._may_reorder_batch, runner._build_attention_metadata
    ends: dict[str, int] = {}

    def sorted_so(output: Any) -> None:
        ends.clear()
        batch = runner.input_batch
        for row, name in enumerate(batch.req_ids):
            end = rule(
                int(batch.num_computed_tokens_cpu[row]),
                int(output.num_scheduled_tokens[name]),
                len(output.scheduled_spec_decode_tokens.get(name, ())),
                int(batch.num_prompt_tokens[row]),
            )
            if end is not None:
                ends[name] = end
        with _prompts_end_at(runner.input_batch, ends):
            sort(output)

    def built(*arguments: Any, **named: Any) -> Any:
        with _prompts_end_at(runner.input_batch, ends):
            return build(*arguments, **named)

    runner._may_reorder_batch = sorted_so
    if metadata:
        runner._build_attention_metadata = built


@contextlib.contextmanager
def _prompts_end_at(batch: Any, ends: dict[str, int]) -> Iterator[None]:
    """With other lengths of prompts in a batch, whose rows may change places meanwhile."""
    true = {name: int(batch.num_prompt_tokens[batch.req_id_to_index[name]]) for name in ends}
    for name, end in ends.items():
        batch.num_prompt_tokens[batch.req_id_to_index[name]] = end
    try:
        yield
    finally:
        for name, length in true.items():
            batch.num_prompt_tokens[batch.req_id_to_index[name]] = length


RULES: dict[str, Callable[[EngineView], None]] = {
    "keeps_accepted": _keep_accepted,
    "counts_by_request": _count_by_request,
    "trusts_delivered_counts": _trust_delivered,
    "fresh_rows_start_empty": _start_empty,
    "checkpoints_need_blocks": _checkpoints_with_blocks,
    "cuts_off_tails": _decode_tails,
    "recomputed_as_decodes": _prefill_recomputed,
}
"""Fields of the rules of a runner (kernels/targets/vllm/scheduling/rules.py) that fixes change, and what does the same
to the release's own runner."""


def without_form(fixes: Sequence[str]) -> tuple[str, ...]:
    """Those of `fixes` that cannot be switched on in engines of the imported release."""
    import vllm

    use_imported(Path(vllm.__file__).parents[1], f"vllm {vllm.__version__}")
    release = rules_v1()
    return tuple(
        issue.name
        for issue in SEQUENCE_ISSUES
        if issue.name in fixes and any(field not in RULES for field in differing(release, issue.change.rules(release)))
    )
