"""The V2 runner's model state makes its context in the first step, and looks at the settings there."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

from harness.export.kernel_script.loading import HYBRID
from harness.export.kernel_script.objects import Setup


def start_model_state(setup: Setup) -> None:
    """Let the release's own model state make a context. Raises what it raises."""
    case = setup.case
    state: Any = object.__new__(importlib.import_module(HYBRID).MambaHybridModelState)
    state.__dict__.update(
        vllm_config=SimpleNamespace(
            speculative_config=SimpleNamespace() if case.num_spec else None,
            compilation_config=SimpleNamespace(static_forward_context=setup.forward_context),
        ),
        model=SimpleNamespace(
            get_mamba_state_copy_func=lambda: setup.copy_functions,
            get_mamba_state_copy_funcs=lambda _: setup.copy_functions,
        ),
        device=setup.device,
        max_num_reqs=len(case.tables[0]),
        _align_mode=True,
        _mamba_ctx=None,
        _mamba_spec=None,
        _mamba_group_ids=[],
        _mamba_state_copy_funcs=None,
    )
    tables = dict(zip(setup.groups, setup.tables, strict=True))
    if hasattr(state, "initialize_kv_cache"):  # since 0.33.0
        held = {number: SimpleNamespace(gpu=table) for number, table in tables.items()}
        state.initialize_kv_cache(setup.config, SimpleNamespace(block_tables=held, input_block_tables=tables))
    elif hasattr(state, "_ensure_align_ctx"):
        groups, _ = state._get_mamba_group_info(setup.config)
        state._ensure_align_ctx(setup.config, groups, tables)
