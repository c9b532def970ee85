"""Rules of V1: the behaviour of a release's V1 runner, and of the layers that read its host code's output.

Each is recognised by the parameter or text that came with it, not by a version.
"""

from __future__ import annotations

import functools

from harness.kernels.targets.vllm.scheduling.loading import base_source, own_source
from harness.kernels.targets.vllm.scheduling.recognised import Place, RecognisedRule, changed_in, values_in
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules

_PREPARES = Place("vllm.v1.worker.gpu_model_runner", "GPUModelRunner._prepare_inputs")
_BUILDS = Place("vllm.v1.worker.gpu_model_runner", "GPUModelRunner._build_attention_metadata")
METADATA = Place("vllm.v1.attention.backends.mamba_attn", "BaseMambaAttentionMetadataBuilder._compute_common_metadata")

RULES = (
    RecognisedRule("zero_drafts", _PREPARES, lambda source: "zero_draft_decode_mask" in _PREPARES.text(source)),
    # The layers see how many drafts a row has, and so they see the padded last token of a prompt.
    RecognisedRule(
        "padded_tails", METADATA, lambda source: "num_decode_draft_tokens_cpu" in METADATA.parameters(source)
    ),
    # A row counts as past its prefill once it is past its prompt, even if it computes outputs again.
    RecognisedRule(
        "recomputed_as_decodes",
        _BUILDS,
        lambda source: "num_computed_tokens_cpu < num_prompt_tokens_cpu" in _BUILDS.text(source),
    ),
    RecognisedRule("counts_by_previous_row", _PREPARES, lambda source: "prev_positions" in _PREPARES.text(source)),
)


@functools.cache
def rules_v1() -> RunnerRules:
    """The rules of the loaded release, or of the base release of what is loaded."""
    return RunnerRules(**values_in(base_source(), RULES))


@functools.cache
def own_rules_v1() -> RunnerRules:
    """The same with those that the loaded code has in other words."""
    return RunnerRules(**values_in(base_source(), RULES) | changed_in(own_source(), base_source(), RULES))
