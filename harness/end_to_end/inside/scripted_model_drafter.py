"""A scripted model drafter stands in the place of an EAGLE, MTP or draft model: it has no weights, and no cache.

The release's own drafters are subclasses of one class, with code around their models that counts what was sampled. That
code stays; what the model would draft is what the sequence says. Without weights there is nothing to load, to warm up
or to keep in blocks.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

DRAFTERS = ("EagleProposer", "DraftModelProposer")
"""Names of the classes that the runner makes drafters of."""


def scripted_model_drafter() -> type[Any]:
    """The class of the release, scripted."""
    base = importlib.import_module("vllm.v1.spec_decode.llm_base_proposer").SpecDecodeBaseProposer
    return _subclass(base)


def _subclass(base: type[Any]) -> type[Any]:
    class ScriptedModelDrafter(base):  # type: ignore[misc]
        """Proposes what the sequence says."""

        def __init__(self, vllm_config: Any, device: torch.device, runner: Any = None) -> None:
            from vllm.v1.utils import CpuGpuBuffer

            self.runner, self.device, self.vllm_config = runner, device, vllm_config
            self.speculative_config = vllm_config.speculative_config
            self.method = self.speculative_config.method
            self.max_model_len = vllm_config.model_config.max_model_len
            self.supports_mm_inputs = False
            self.eagle3_use_aux_hidden_state = False
            self.draft_attn_groups: list[Any] = []
            self.kv_cache_gid = -1
            self.backup_next_token_ids = CpuGpuBuffer(
                vllm_config.scheduler_config.max_num_seqs, dtype=torch.int32, device=device, with_numpy=True
            )

        def load_model(self, *args: Any, **kwargs: Any) -> None:
            """There is none."""

        def dummy_run(self, *args: Any, **kwargs: Any) -> None:
            """Nothing to warm up."""

        def initialize_attn_backend(self, kv_cache_config: Any, *args: Any, **kwargs: Any) -> None:
            """It has no attention; in production its layer is in the group of the model's."""
            groups = kv_cache_config.kv_cache_groups
            self.kv_cache_gid = next(
                number for number, group in enumerate(groups) if not hasattr(group.kv_cache_spec, "mamba_type")
            )

        def initialize_cudagraph_keys(self, *args: Any, **kwargs: Any) -> None:
            """It has no graphs."""

        def take_last_draft_probs(self) -> None:
            """Drafts are taken or left by comparing tokens."""

        def propose(self, num_speculative_tokens: int | None = None, **kwargs: Any) -> torch.Tensor:
            """As many drafts for each row as the method always proposes."""
            count = num_speculative_tokens or self.speculative_config.num_speculative_tokens
            names = self.runner.input_batch.req_ids
            engine = getattr(self, "scripted_engine", None)
            if engine is None or engine.drafts is None:  # a call to warm up, while the engine is made
                return torch.zeros(len(names), count, dtype=torch.int32)
            return torch.tensor(
                [engine.drafts.after(name, engine.device_tokens.of(name), count) for name in names],
                dtype=torch.int32,
            ).reshape(len(names), count)

    return ScriptedModelDrafter
