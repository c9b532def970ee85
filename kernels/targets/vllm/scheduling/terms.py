"""A term is vLLM's name for a value that a pair compares (runner_pair.py): the word to search for in its sources.

Our names are short and the same for both runners and all releases. Where vLLM's differ from release to release, the
term is that of the newest one; if no name in vLLM is the value, it is what the value is calculated from, or our name.
"""

from __future__ import annotations

_FIELDS = {
    "request": "req_ids",
    "slot": "idx_mapping",
    "computed": "num_computed_tokens",
    "scheduled": "num_scheduled_tokens",
    "drafts": "num_draft_tokens",
    "speculative": "num_decode_draft_tokens_cpu",
    "accepted": "num_accepted_tokens",
    "state_column": "mamba_state_idx",
    "samples": "discard_request_mask",
    "mamba": "block_table",
    "attention": "block_table",
    "source": "src_col",
    "destination": "mamba_state_idx",
    "bias": "token_bias",
    "rows": "num_reqs",
}
"""Fields of rows of a launch (harness/case/step_plan.py)."""

_OF_A_LAUNCH = {"forward pass: state_column": "block_table_tensor at seq_lens"}
"""Values that have another term in one launch: layers find their column by the length of the sequence."""

_VALUES = {
    # Values of a step.
    "zeroed": "new_block_ids_to_zero",
    "copies": "kv_cache_block_copies",
    "drafts": "draft_tokens",
    "drafts of gated delta nets": "num_decode_draft_tokens_cpu",
    # Inputs by token of the V1 runner's layers.
    "prefilling": "is_prefilling",
    "positions": "positions",
    "slot mapping": "slot_mapping",
    "tokens": "input_ids",
    # Values that the V1 runner keeps between steps.
    "rows": "req_id_to_index",
    "computed tokens in the batch": "num_computed_tokens_cpu",
    "tokens in the batch": "num_tokens_no_spec",
    "computed tokens": "CachedRequestState.num_computed_tokens",
    "outputs": "len(output_token_ids)",
    "drafts before": "prev_num_draft_len",
    "state columns": "mamba_state_idx",
    "previous rows": "prev_req_id_to_index",
    "accepted counts copied to the host": "num_accepted_tokens_cpu",
    "counts of sampled tokens": "valid_sampled_token_count",
    "requests with drafts": "take_draft_token_ids",
}
"""Values that are not fields of a launch's rows."""


def term_of(what: str) -> str:
    """vLLM's term for a value, from our name: `launch: field`, or `value, when`. Without a term, returns ours."""
    _, of_a_launch, field = what.partition(": ")
    if of_a_launch:
        return _OF_A_LAUNCH.get(what) or _FIELDS.get(field, field)
    value = what.partition(", ")[0]
    return _VALUES.get(value, value)
