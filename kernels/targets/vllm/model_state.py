"""A model state keeps the V2 runner's Mamba columns and accepted counts, and calls its kernels.

It is production's own class, created as the runner does it. Instead of arrays of its own it gets those of the case.
Where it would continue and move states, which is a separate operation here, its context is a stub that does
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from harness.case import Layout
from harness.kernels.targets.arguments import AcceptedArrays, AdvanceArrays
from harness.kernels.targets.vllm.features import HYBRID_STATE


class DefaultModelState:
    """Takes the place of the class that production's model state extends."""

    def __init__(self, vllm_config: Any, model: Any, encoder_cache: Any, device: torch.device) -> None:
        self.vllm_config = vllm_config
        self.model = model
        self.device = device
        self.max_num_reqs: int = vllm_config.scheduler_config.max_num_seqs


class ModelSpecificAttnMetadata:
    """Takes the place of the base of a data class that is defined next to the model state and not used here."""


class _TextModel:
    """The parts of a model's configuration that the real class uses: here, of a text-only model."""

    dtype = torch.bfloat16
    max_model_len = 1
    enable_prompt_embeds = False
    uses_mrope = False
    uses_xdrope_dim = 0
    multimodal_config = None

    def get_inputs_embeds_size(self) -> int:
        return 1


class _NoContext:
    """Takes the place of a context that is already bound; moving states is not under test here."""

    is_initialized = True

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Whatever a version calls its launch of precopy, which is a separate operation: it does nothing."""
        if not name.startswith("run_"):
            raise AttributeError(name)
        return lambda *_arguments, **_keywords: None


class ModelState:
    """One production model state, for layouts of one shape. `module` is the file that defines it."""

    def __init__(self, module: ModuleType, layout: Layout, config: Any, device: torch.device) -> None:
        self._config = config
        settings = SimpleNamespace(
            cache_config=SimpleNamespace(
                mamba_cache_mode="align",
                use_kda_recoverssm=False,
                block_size=layout.block_size,
                mamba_block_size=layout.block_size,
            ),
            scheduler_config=SimpleNamespace(max_num_seqs=layout.table_rows, max_num_batched_tokens=1),
            model_config=_TextModel(),
            num_speculative_tokens=layout.num_spec,
        )
        self._state: Any = getattr(module, HYBRID_STATE)(settings, None, None, device)
        self._state._mamba_ctx = _NoContext()
        self._state._mamba_state_copy_funcs = {}

    def advance(self, arrays: AdvanceArrays) -> None:
        """The preparation of a step, up to where states would move."""
        state = self._state
        state.num_accepted_tokens_gpu = arrays.accepted
        state._mamba_state_idx_gpu = arrays.state_column
        state._mamba_src_col_gpu = arrays.source_column
        state._mamba_src_off_gpu = arrays.bias
        batch = SimpleNamespace(
            num_reqs=arrays.num_requests, idx_mapping=arrays.mapping, query_start_loc=arrays.query_start
        )
        state.preprocess_state(batch, (), self._config, arrays.computed)

    def set_accepted(self, arrays: AcceptedArrays) -> None:
        """Set accepted counts after a step; states would move next."""
        self._state.num_accepted_tokens_gpu = arrays.accepted
        self._state.postprocess_state(arrays.mapping, arrays.sampled)
