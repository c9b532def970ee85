"""Which rows continue from which state, on metadata as layers of both kinds have them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from harness.end_to_end.inside.continued_rows import Read, continued_rows


def read(row: int, block: int, window_block: int | None = None, offset: int = 0) -> Read:
    return Read("layer", 1, row, block, block if window_block is None else window_block, offset)


def test_mamba2_has_decodes_in_front() -> None:
    metadata = SimpleNamespace(
        num_decodes=2,
        num_prefills=2,
        state_indices_tensor_d=torch.tensor([[4, 5, 6], [7, 8, 9]]),
        num_accepted_tokens=torch.tensor([3, 1]),
        has_initial_states_p=torch.tensor([False, True]),
        state_indices_tensor_p=torch.tensor([10, 11]),
    )
    assert list(continued_rows("layer", 1, metadata)) == [read(0, 6, 4, 2), read(1, 7), read(3, 11)]


def gated_delta_net(**changes: object) -> SimpleNamespace:
    """A batch without drafts: one row that decodes, two that prefill, of which the first is fresh."""
    plain = {
        "num_decodes": 1,
        "num_prefills": 2,
        "num_spec_decodes": 0,
        "spec_sequence_masks": None,
        "spec_state_indices_tensor": None,
        "num_accepted_tokens": None,
        "has_initial_state": torch.tensor([True, False, True]),
        "non_spec_state_indices_tensor": torch.tensor([4, 5, 6]),
    }
    return SimpleNamespace(**{**plain, **changes})


def test_gated_delta_nets_without_drafts() -> None:
    assert list(continued_rows("layer", 1, gated_delta_net())) == [read(0, 4), read(2, 6)]
    decodes = gated_delta_net(num_decodes=3, num_prefills=0, has_initial_state=None)
    assert list(continued_rows("layer", 1, decodes)) == [read(0, 4), read(1, 5), read(2, 6)]


def test_rows_with_drafts_are_where_the_mask_says() -> None:
    """Behind the last row there is padding of a graph."""
    metadata = gated_delta_net(
        num_decodes=0,
        num_spec_decodes=2,
        spec_sequence_masks=torch.tensor([False, True, False, True, False]),
        spec_state_indices_tensor=torch.tensor([[10, 11, 12], [13, 14, 15]]),
        num_accepted_tokens=torch.tensor([2, 1]),
        has_initial_state=torch.tensor([False, True, False]),
        non_spec_state_indices_tensor=torch.tensor([4, 5, 0]),
    )
    assert list(continued_rows("layer", 1, metadata)) == [read(1, 11, 10, 1), read(3, 13), read(2, 5)]


def test_metadata_of_no_known_kind() -> None:
    with pytest.raises(AttributeError, match="num_decodes"):
        list(continued_rows("layer", 1, SimpleNamespace()))
