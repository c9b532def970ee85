"""Launches of host code, on plain tensors: each body does to counts and tables what the kernel of its name does."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kernels.targets.vllm.scheduling import launches_v1, launches_v2
from harness.kernels.targets.vllm.scheduling.runner_pair import HostCodeLacks

torch = pytest.importorskip("torch")


def ints(*values: Any) -> Any:
    return torch.tensor(values, dtype=torch.int32)


def longs(*values: Any) -> Any:
    return torch.tensor(values, dtype=torch.int64)


def launch(name: str, grid: tuple[int, ...], **given: Any) -> None:
    """The body of a V2 kernel, called as host code calls the kernel: by position."""
    (body,) = (bodies[name] for bodies in launches_v2._BODIES.values() if name in bodies)
    launches_v2._Kernel(body, list(given))[grid](*given.values())


def test_staged_rows_are_written_where_they_begin() -> None:
    output = torch.zeros(3, 4, dtype=torch.int32)
    launch(
        "_apply_write_kernel",
        (2,),
        output_ptr=output,
        output_stride=4,
        write_indices_ptr=ints(2, 0),
        write_starts_ptr=ints(1, 0),
        write_contents_ptr=ints(7, 8, 9),
        write_cu_lens_ptr=ints(2, 3),
        write_group_ids_ptr=None,
        MULTI_GROUP=False,
    )
    assert output.tolist() == [[9, 0, 0, 0], [0, 0, 0, 0], [0, 7, 8, 0]]


def test_staged_rows_of_several_groups_go_to_their_addresses() -> None:
    first, second = torch.zeros(2, 3, dtype=torch.int32), torch.zeros(2, 5, dtype=torch.int32)
    launch(
        "_apply_write_kernel",
        (2,),
        output_ptr=longs(first.data_ptr(), second.data_ptr()),
        output_stride=longs(3, 5),
        write_indices_ptr=ints(1, 1),
        write_starts_ptr=ints(0, 4),
        write_contents_ptr=ints(5, 6),
        write_cu_lens_ptr=ints(1, 2),
        write_group_ids_ptr=ints(0, 1),
        MULTI_GROUP=True,
    )
    assert first.tolist() == [[0, 0, 0], [5, 0, 0]]
    assert second.tolist() == [[0, 0, 0, 0, 0], [0, 0, 0, 0, 6]]


def test_tables_are_gathered_for_the_batch_and_rows_past_it_are_null_blocks() -> None:
    slots, batch = ints([1, 2, 3], [4, 5, 6]), torch.full((3, 3), 9, dtype=torch.int32)
    launch(
        "_gather_block_tables_kernel",
        (1, 3),
        batch_idx_to_req_idx=ints(1, 0),
        src_block_table_ptrs=longs(slots.data_ptr()),
        dst_block_table_ptrs=longs(batch.data_ptr()),
        block_table_strides=longs(3),
        num_blocks_ptr=ints([3, 2]),
        num_reqs=2,
    )
    assert batch.tolist() == [[4, 5, 9], [1, 2, 3], [0, 0, 0]], "cells past a request's blocks stay"


def test_sequences_are_as_long_as_computed_and_scheduled_tokens() -> None:
    lengths = ints(9, 9, 9)
    launch(
        "_prepare_pos_seq_lens_kernel",
        (3,),
        idx_mapping_ptr=ints(1, 0),
        query_start_loc_ptr=ints(0, 4, 5),
        num_computed_tokens_ptr=ints(10, 20),
        seq_lens_ptr=lengths,
    )
    assert lengths.tolist() == [24, 11, 0]


def test_rows_inside_their_prefill_sample_and_reject_nothing() -> None:
    sampled, rejected = ints(2, 1), ints(9, 9)
    launch(
        "_get_num_sampled_and_rejected_kernel",
        (2,),
        num_sampled_ptr=sampled,
        num_rejected_ptr=rejected,
        seq_lens_ptr=ints(12, 5),
        cu_num_logits_ptr=ints(0, 4, 5),
        idx_mapping_ptr=ints(1, 0),
        prefill_len_ptr=ints(8, 12),
    )
    assert (sampled.tolist(), rejected.tolist()) == ([2, 0], [2, 0])


def test_computed_tokens_leave_out_what_was_rejected() -> None:
    computed, totals = ints(10, 20), ints(11, 21)
    launch(
        "_post_update_kernel",
        (3,),
        idx_mapping_ptr=ints(1, 0, -1),
        num_computed_tokens_ptr=computed,
        total_len_ptr=totals,
        num_sampled_ptr=ints(2, 1, 5),
        num_rejected_ptr=ints(1, 0, 0),
        query_start_loc_ptr=ints(0, 3, 4, 9),
    )
    assert (computed.tolist(), totals.tolist()) == ([11, 22], [12, 23])


def test_accepted_counts_are_at_least_one_and_rows_without_a_slot_have_none() -> None:
    accepted = ints(7, 7, 7)
    launch(
        "_scatter_num_accepted_kernel",
        (3,),
        num_accepted_ptr=accepted,
        num_sampled_ptr=ints(3, 0, 5),
        idx_mapping_ptr=ints(2, 0, -1),
    )
    assert accepted.tolist() == [1, 7, 3]
    launch("_fill_num_accepted_kernel", (2,), num_accepted_ptr=accepted, num_sampled=4, idx_mapping_ptr=ints(1, -1))
    assert accepted.tolist() == [1, 4, 3]


def test_advance_goes_to_the_column_of_the_last_token_and_resets_what_moves() -> None:
    columns, accepted, sources, biases = ints(0, 1, -1), ints(2, 3, 1), ints(9, 9, 9), ints(9, 9, 9)
    launch(
        "preprocess_mamba_align_fused_kernel",
        (1,),
        idx_mapping_ptr=ints(1, 0, 2),
        state_idx_ptr=columns,
        num_accepted_tokens_ptr=accepted,
        src_col_ptr=sources,
        src_off_ptr=biases,
        num_computed_tokens_ptr=ints(3, 5, 0),
        query_start_loc_ptr=ints(0, 2, 4, 8),
        num_reqs=3,
        MAMBA_BLOCK_SIZE=4,
    )
    assert columns.tolist() == [1, 1, 0]
    assert accepted.tolist() == [1, 3, 1], "slot 1 stays in its column, slot 2 had none"
    assert (sources.tolist(), biases.tolist()) == ([0, 1, -1], [1, 2, 0])


def run(body: Any, **given: Any) -> None:
    """The body of a V1 kernel, called as host code calls the kernel."""
    launches_v1._Launch(body, list(given))[(1,)](*given.values())


def test_tokens_go_to_the_slots_of_their_blocks_and_padding_nowhere() -> None:
    slots = longs(9, 9, 9, 9)
    run(
        launches_v1._compute_slot_mapping,
        query_start_loc_ptr=ints(0, 2, 3),
        positions_ptr=longs(3, 4, 0),
        block_table_ptr=ints([5, 6], [7, 8]),
        block_table_stride=2,
        block_size=4,
        slot_mapping_ptr=slots,
    )
    assert slots.tolist() == [5 * 4 + 3, 6 * 4, 7 * 4, -1]


def test_the_next_token_is_the_last_valid_one() -> None:
    tokens, counts = ints(0, 0, 0), ints(0, 0, 0)
    run(
        launches_v1._prepare_next_token,
        sampled_token_ids_ptr=longs([3, 4, -1], [5, -1, -1], [6, -1, -1]),
        discard_request_mask_ptr=torch.tensor([False, False, True]),
        backup_next_token_ids_ptr=ints(50, 51, 52),
        next_token_ids_ptr=tokens,
        valid_sampled_tokens_count_ptr=counts,
        vocab_size=100,
    )
    assert (tokens.tolist(), counts.tolist()) == ([4, 5, 52], [2, 1, 0])


def test_the_drafter_samples_before_what_was_rejected() -> None:
    indices, rejected = ints(0, 0), ints(0, 0)
    run(
        launches_v1._prepare_inputs,
        cu_num_draft_tokens_ptr=ints(3, 3),
        valid_sampled_tokens_count_ptr=ints(2, 1),
        query_start_loc_gpu_ptr=ints(0, 4, 5),
        token_indices_to_sample_ptr=indices,
        num_rejected_tokens_gpu_ptr=rejected,
    )
    assert (indices.tolist(), rejected.tolist()) == ([1, 4], [2, 0])


def test_a_kernel_with_unknown_arguments_is_a_gap_in_the_stubs() -> None:
    with pytest.raises(HostCodeLacks, match="gets no 'positions'"):
        run(launches_v1._compute_slot_mapping, block_size=4)
