"""Rules of V2: the behaviour of a release's V2 host code, and of the layers that read its output.

Each is recognised by the parameter, function or text that came with it, not by a version.

There are two families of layers, that of Mamba2 and that of gated delta nets, and they read different outputs of the
host code. A row counts as speculative if both families run it so: where one would not, the release has a bug there.
What each family reads is compared on its own (runner_pair_v2.py).
"""

from __future__ import annotations

import functools

from harness.kernels.targets.vllm.scheduling.loading import base_source, own_source
from harness.kernels.targets.vllm.scheduling.recognised import Place, RecognisedRule, changed_in, values_in
from harness.kernels.targets.vllm.scheduling.release_source import ReleaseSource
from harness.kernels.targets.vllm.scheduling.rules import ColumnUnit, MarkedRows, RunnerRules
from harness.kernels.targets.vllm.scheduling.rules_v1 import METADATA
from harness.refusal import UnknownTarget

GPU = "vllm.v1.worker.gpu"
"""The package of the V2 host code."""

_FINISHES = Place(f"{GPU}.model_runner", "GPUModelRunner.finish_requests")
_ADDS = Place(f"{GPU}.model_states.mamba_hybrid", "MambaHybridModelState.add_request")
_PREPARES = Place(f"{GPU}.model_states.mamba_hybrid", "MambaHybridModelState.prepare_attn")


def _has_tails(source: ReleaseSource) -> bool:
    """Because Mamba2 layers see how many drafts a row has (0.30), or because the host code says so (0.31)."""
    return "num_decode_draft_tokens_cpu" in METADATA.parameters(source) or _flags_tails(source)


def _flags_tails(source: ReleaseSource) -> bool:
    return "prefill_runs_as_decode" in _PREPARES.text(source)


def _marked_rows(source: ReleaseSource) -> MarkedRows:
    text = _PREPARES.text(source)
    if "== num_draft_tokens_per_req + 1" in text:
        return MarkedRows.ONE_TOKEN
    return MarkedRows.PAST_PREFILL if "num_draft_tokens_per_req > 0" in text else MarkedRows.SHORT


RULES = (
    RecognisedRule("removes_in_order", _FINISHES, lambda source: "sorted(" in _FINISHES.text(source)),
    RecognisedRule(
        "column_unit",
        _ADDS,
        lambda source: ColumnUnit.MAMBA if "mamba_block_size" in _ADDS.text(source) else ColumnUnit.SMALLEST,
    ),
    RecognisedRule(
        "zero_drafts", _PREPARES, lambda source: "num_draft_tokens_per_req > 0" not in _PREPARES.text(source)
    ),
    RecognisedRule("padded_tails", METADATA, _has_tails),
    RecognisedRule("flags_tails", _PREPARES, _flags_tails),
    RecognisedRule("marked_rows", _PREPARES, _marked_rows),
)


@functools.cache
def rules_v2() -> RunnerRules:
    """The rules of the loaded release, or of the base release of what is loaded. Raises UnknownTarget if it has no V2
    host code for Mamba."""
    return _rules({})


@functools.cache
def own_rules_v2() -> RunnerRules:
    """The same with those that the loaded code has in other words."""
    return _rules(changed_in(own_source(), base_source(), RULES))


def _rules(changed: dict[str, object]) -> RunnerRules:
    try:
        return RunnerRules(**{**values_in(base_source(), RULES), **changed})
    except UnknownTarget as error:
        raise UnknownTarget(f"this release's V2 host code has another shape: {error}") from error
