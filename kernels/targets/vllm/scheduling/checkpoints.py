"""A prefill checkpoint is a state that a layer exports from inside a prefill, to a second column of the row."""

from __future__ import annotations

from harness.kernels.targets.vllm.bare import accepted
from harness.kernels.targets.vllm.scheduling.engine import Engine, ReleaseLacks
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.refusal import UnknownTarget


class Checkpoints:
    """Where the release's own rule puts the checkpoint of a prefill row, if the configuration has checkpoints."""

    def __init__(self, engine: Engine, need_blocks: bool) -> None:
        """With `need_blocks`, a chunk has no checkpoint unless the block manager keeps a block for it."""
        self._engine, self._need_blocks = engine, need_blocks
        self._compute = None
        if engine.config.checkpoint_alignment is None:
            return
        try:
            self._compute = module("vllm.model_executor.layers.mamba.checkpoint").compute_mamba_prefill_checkpoints
        except (UnknownTarget, AttributeError):
            raise ReleaseLacks("no rule shared by backends for checkpoints inside a prefill") from None
        speculative = engine.vllm_config.speculative_config
        lookahead = getattr(engine.scheduler, "num_hash_lookahead_tokens", 0)
        drops = getattr(speculative, "use_eagle_block_drop", None) or getattr(speculative, "use_eagle", None)
        self._fixed = accepted(
            self._compute,
            {
                "hash_block_size": engine.hash_block_size,
                "mamba_block_size": engine.config.block_size,
                "checkpoint_alignment": engine.config.checkpoint_alignment,
                "drop_eagle_block": speculative is not None and drops is not None and drops() and not lookahead,
                "cache_hit_alignment_tokens": engine.hit_alignment,
                "num_hash_lookahead_tokens": lookahead,
            },
        )

    def of(self, name: str, end: int, scheduled: int) -> tuple[int, int]:
        """The checkpoint's offset in the row, and its column; (0, -1) if there is none."""
        if self._compute is None:
            return 0, -1
        if self._need_blocks:
            managers = self._engine.manager.coordinator.single_type_managers
            if name not in managers[self._engine.mamba_groups[0]]._checkpoints:
                return 0, -1
        offsets, columns = self._compute([end], [scheduled], **self._fixed)
        return offsets[0], columns[0]
