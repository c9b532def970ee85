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
from harness.kernels.targets.vllm.features import CONTEXT, HYBRID_STATE
from harness.kernels.targets.vllm.runner import Runner


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

    @classmethod
    def create(cls, *_arguments: Any, **_keywords: Any) -> _NoContext:
        """In place of the context that the adapter makes itself."""
        return cls()

    def initialize_from_forward_context(self, *_arguments: Any, **_keywords: Any) -> None:
        """Nothing: the adapter does this."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Whatever a version calls its launch of precopy, which is a separate operation: it does nothing."""
        if not name.startswith("run_"):
            raise AttributeError(name)
        return lambda *_arguments, **_keywords: None


_STARTS = ("initialize_kv_cache", "_ensure_align_ctx")
"""The methods that make the context, in the order of preference: since 0.33.0, since 0.25.0."""


def _smallest_block_size(layout: Layout) -> int:
    """The tokens of the smallest blocks of all groups, as `cache_config.block_size` has them. A drafter may have
    smaller blocks than the layers with states have: so what counts in the wrong ones shows."""
    smaller = layout.num_spec > 0 and layout.block_size % 2 == 0
    return layout.block_size // 2 if smaller else layout.block_size


class ModelState:
    """One production model state, for layouts of one shape. `module` is the file that defines it."""

    def __init__(self, module: ModuleType, layout: Layout, objects: Runner, device: torch.device) -> None:
        self._module = module
        self._objects = objects
        self._config = objects.config
        self._device = device
        self._settings = SimpleNamespace(
            cache_config=SimpleNamespace(
                mamba_cache_mode="align",
                use_kda_recoverssm=False,
                block_size=_smallest_block_size(layout),
                mamba_block_size=layout.block_size,
            ),
            scheduler_config=SimpleNamespace(max_num_seqs=layout.table_rows, max_num_batched_tokens=1),
            model_config=_TextModel(),
            num_speculative_tokens=layout.num_spec,
            speculative_config=SimpleNamespace() if layout.num_spec else None,
            compilation_config=SimpleNamespace(static_forward_context=objects.forward_context),
        )
        self._state: Any = self._make(None)
        self._state._mamba_ctx = _NoContext()
        self._state._mamba_state_copy_funcs = {}

    def _make(self, model: Any) -> Any:
        return getattr(self._module, HYBRID_STATE)(self._settings, model, None, self._device)

    def start(self, functions: Any) -> None:
        """Make a context as the runner's first step does, up to the context itself: production looks at the settings
        there. `functions` are the copy functions in the form of this version. Raises what production raises."""
        model = SimpleNamespace(
            get_mamba_state_copy_func=lambda: functions, get_mamba_state_copy_funcs=lambda _types: functions
        )
        state = self._make(model)
        name = next((name for name in _STARTS if hasattr(state, name)), None)
        if name is None:
            return
        context = getattr(self._module, CONTEXT)
        setattr(self._module, CONTEXT, _NoContext)
        try:
            if name == "initialize_kv_cache":
                tables = {number: SimpleNamespace(gpu=None) for number in self._objects.mamba_groups}
                state.initialize_kv_cache(
                    self._config, SimpleNamespace(block_tables=tables, input_block_tables=dict.fromkeys(tables))
                )
            else:
                groups, _ = state._get_mamba_group_info(self._config)
                state._ensure_align_ctx(self._config, groups, dict.fromkeys(groups))
        finally:
            setattr(self._module, CONTEXT, context)

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
