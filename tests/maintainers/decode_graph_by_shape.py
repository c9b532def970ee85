"""A step with a prefill does not run on the full decode graph (docs/reports/recomputed-as-decode.md, "Suggested rule";
docs/reports/tail-behind-extend.md, "Conditions").

In vLLM's tests: a `model_runner` with full graphs for decodes, whose attention metadata builder is that of Mamba2. No
graph is captured or replayed: the check compares which graph a step is dispatched to with what the builder leaves in
the buffers that such a graph reads.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from tests.maintainers.objects import Scheduled, V1Worker, all_show, config, module
from tests.maintainers.recomputed_as_decode import prefill_end
from tests.maintainers.tail_behind_extend import put_tails_first

ISSUE = "recomputed-as-decode"
DRAFTS = 3
EARLIER = -7
"""What an earlier step has left in the buffers of the graph."""
ROWS = 64
"""The most rows of a graph."""


class Dispatches:
    """The release's own dispatcher of graphs in the default mode, called by `execute_model` of a worker.

    `full` says whether the last step was dispatched to the full decode graph. What the worker gets is no graph, as
    there is none."""

    def __init__(self, worker: V1Worker, suggested: bool) -> None:
        self._worker, self._suggested = worker, suggested
        self._without_graphs = worker.runner.cudagraph_dispatcher.dispatch
        self._dispatcher = _dispatcher(worker.runner.uniform_decode_query_len)
        self.full = False
        worker.runner.cudagraph_dispatcher = self

    def dispatch(self, *, num_tokens: int, uniform_decode: bool, **other: Any) -> Any:
        """As the release does; the suggested rule: a step with a row that prefills is no decode, whatever its shape."""
        if self._suggested:
            batch = self._worker.batch
            rows = batch.num_reqs
            prefills = batch.num_computed_tokens_cpu[:rows] < prefill_end(batch)[:rows]
            uniform_decode = uniform_decode and not prefills.any()
        mode, _ = self._dispatcher.dispatch(num_tokens=num_tokens, uniform_decode=uniform_decode, **other)
        self.full = mode == module("vllm.config.compilation").CUDAGraphMode.FULL
        return self._without_graphs(num_tokens=num_tokens)


def _dispatcher(width: int) -> Any:
    """A dispatcher of the release with graphs for some numbers of rows of `width` tokens."""
    kinds = module("vllm.config.compilation")
    mode, sizes = kinds.CUDAGraphMode.FULL_AND_PIECEWISE, [width, 2 * width, 4 * width]
    compilation = kinds.CompilationConfig(
        mode=kinds.CompilationMode.VLLM_COMPILE,
        cudagraph_mode=mode,
        cudagraph_capture_sizes=sizes,
        max_cudagraph_capture_size=sizes[-1],
        splitting_ops=list(kinds.CompilationConfig._attention_ops),
    )
    dispatcher = module("vllm.v1.cudagraph_dispatcher").CudagraphDispatcher(
        types.SimpleNamespace(
            compilation_config=compilation,
            lora_config=None,
            num_speculative_tokens=width - 1,
            scheduler_config=types.SimpleNamespace(max_num_seqs=ROWS),
        )
    )
    dispatcher.initialize_cudagraph_keys(mode, width)
    return dispatcher


def has_fresh_indices(metadata: Any) -> bool:
    """Whether the release's builder writes the state indices of a step into the buffer that a graph reads."""
    columns = 1 if metadata.state_indices_tensor_d is None else metadata.state_indices_tensor_d.shape[-1]
    builder = types.SimpleNamespace(
        decode_cudagraph_max_bs=ROWS,
        use_spec_decode=True,
        use_replayssm=False,
        use_flashinfer_replayssm=False,
        vllm_config=types.SimpleNamespace(cache_config=types.SimpleNamespace(mamba_cache_mode="align")),
        compilation_config=types.SimpleNamespace(
            cudagraph_mode=module("vllm.config.compilation").CUDAGraphMode.FULL_AND_PIECEWISE
        ),
        state_indices_tensor_d=torch.full((ROWS, columns), EARLIER, dtype=torch.int32),
        decode_num_accepted_tokens=torch.full((ROWS,), EARLIER, dtype=torch.int32),
    )
    kind = module("vllm.v1.attention.backends.mamba_attn").BaseMambaAttentionMetadataBuilder
    kind._update_metadata_for_cudagraph_capture(builder, metadata)
    return bool((builder.state_indices_tensor_d[: metadata.num_reqs] != EARLIER).all())


def run_step(worker: V1Worker, suggested: bool, *rows: Scheduled) -> None:
    """A step on a worker; if it runs on the full decode graph, that must have the step's own state indices."""
    dispatches = Dispatches(worker, suggested)
    worker.execute(*rows)
    metadata = worker.mamba2_metadata()
    assert not dispatches.full or has_fresh_indices(metadata), (
        f"a step of {metadata.num_decodes} decodes and {metadata.num_prefills} prefills runs on the full decode graph, "
        "with the state indices of an earlier step"
    )


def with_a_decode(rule: Callable[[Any], Any] | None = None, *prefills: Scheduled) -> tuple[V1Worker, Scheduled]:
    """A worker in which one request has begun to decode, next to these prefills, and that request's next row."""
    worker = V1Worker(config(spec_method="mtp", num_spec=DRAFTS, asynchronous=True), prefill_end=rule)
    worker.execute(Scheduled("decode", 0, 3, new=(1, 2, 3)), *prefills)
    worker.sample()
    return worker, Scheduled("decode", 3, 1 + DRAFTS, drafts=DRAFTS, outputs=1)


def check_prompt(suggested: bool) -> None:
    """A decode, and a prompt of 1 + k tokens."""
    worker, decode = with_a_decode()
    run_step(worker, suggested, decode, Scheduled("prompt", 0, 1 + DRAFTS, new=(4, 5, 6, 7)))


def check_padded_prompt(suggested: bool) -> None:
    """A decode, and a prompt of one token with k placeholder drafts."""
    worker, decode = with_a_decode()
    run_step(worker, suggested, decode, Scheduled("prompt", 0, 1 + DRAFTS, drafts=DRAFTS, new=(4,)))


def check_recomputed(suggested: bool) -> None:
    """A decode, and 1 + k outputs that are computed again, which are a prefill by the rule of recomputed-as-decode."""
    worker, decode = with_a_decode(prefill_end, Scheduled("resumed", 0, 25, new=tuple(range(25))))
    resumed = Scheduled("resumed", 40, 1 + DRAFTS, outputs=19, resumed=tuple(range(44)))
    run_step(worker, suggested, decode, resumed)


def check_tail(suggested: bool) -> None:
    """With one draft: a chunk of two tokens, and a last prompt token with a placeholder draft, which stands first by
    the rule of tail-behind-extend."""
    worker = V1Worker(config(spec_method="mtp", num_spec=1))
    put_tails_first(worker)
    chunk, tail = Scheduled("chunk", 8, 2, new=tuple(range(10))), Scheduled("tail", 8, 2, drafts=1, new=tuple(range(9)))
    run_step(worker, suggested, chunk, tail)


def require_graphs_for_decodes(suggested: bool) -> None:
    """Two decodes run on the full graph, with their own state indices: else the checks would say nothing."""
    worker, decode = with_a_decode(None, Scheduled("other", 0, 3, new=(4, 5, 6)))
    dispatches = Dispatches(worker, suggested)
    worker.execute(decode, decode._replace(name="other"))
    if not (dispatches.full and has_fresh_indices(worker.mamba2_metadata())):
        raise RuntimeError("two decodes do not run on the full decode graph")


def run(suggested: bool) -> None:
    """All batches, with the rule or without."""
    require_graphs_for_decodes(suggested)
    all_show((check_prompt, check_padded_prompt, check_recomputed, check_tail), suggested)
