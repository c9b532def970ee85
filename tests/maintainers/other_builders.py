"""The metadata builder of Bailing's linear attention splits a batch by lengths alone
(docs/reports/recomputed-as-decode.md, docs/reports/left-out-row.md).

In vLLM's tests: `BailingLinearAttentionMetadataBuilder.build` with what `_build_attention_metadata` passes to it, and
`MambaHybridAttnMetadata.get_extra_attn_kwargs` with such a builder.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from harness.kernels.targets.vllm.bare import accepted
from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.loading import module
from tests.maintainers.objects import MAMBA, Scheduled, V1Worker, all_show, config

ISSUE = "recomputed-as-decode"
BACKEND = "vllm.v1.attention.backends.linear_attn"
DRAFTS = 3


def builder_of(engine: Engine) -> Any:
    """The release's builder, with what its constructor would take from a model."""
    kind = module(BACKEND).BailingLinearAttentionMetadataBuilder

    class Builder(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            self.kv_cache_spec = engine.kv_cache_config.kv_cache_groups[MAMBA].kv_cache_spec
            self.vllm_config = engine.vllm_config
            self.compilation_config = SimpleNamespace(cudagraph_mode=None)
            self.num_spec_tokens, self.use_spec_decode = DRAFTS, True
            self.reorder_batch_threshold = 1 + DRAFTS
            self.decode_cudagraph_max_bs = 0

    return Builder()


def kinds(worker: V1Worker, suggested: bool) -> tuple[int, int]:
    """How many rows of the step the layers run as decodes and as prefills."""
    common, extra = worker.code.received[MAMBA]
    builder = builder_of(worker.engine)
    with by_drafts(extra) if suggested else contextlib.nullcontext():
        metadata = builder.build(0, common, **accepted(builder.build, extra))
    return metadata.num_decodes, metadata.num_prefills


@contextlib.contextmanager
def by_drafts(extra: dict[str, Any]) -> Iterator[None]:
    """The builder takes rows for prefills that prefill a prompt, and those of two or more tokens without drafts."""
    backend = module(BACKEND)
    split = backend.split_decodes_and_prefills

    def split_by_drafts(common: Any, decode_threshold: int) -> Any:
        prefilling = common.is_prefilling
        if "num_decode_draft_tokens_cpu" in extra:
            no_drafts = extra["num_decode_draft_tokens_cpu"] < 0
            prefilling = prefilling | (no_drafts & (torch.diff(common.query_start_loc_cpu) > 1))
        return split(
            dataclasses.replace(common, is_prefilling=prefilling),
            decode_threshold=decode_threshold,
            treat_short_extends_as_decodes=False,
        )

    backend.split_decodes_and_prefills = split_by_drafts
    try:
        yield
    finally:
        backend.split_decodes_and_prefills = split


def make_worker() -> V1Worker:
    return V1Worker(config(spec_method="mtp", num_spec=DRAFTS))


def drafting(worker: V1Worker) -> Scheduled:
    """A row of drafts, of a request that has run before: up to 0.31 layers get no counts without one."""
    worker.execute(Scheduled("other", 0, 8, new=tuple(range(8))))
    worker.sample()
    return Scheduled("other", 8, 1 + DRAFTS, drafts=DRAFTS, outputs=1)


def check_resumed(suggested: bool) -> None:
    """A resumed request computes two of its outputs again."""
    worker = make_worker()
    resumed = Scheduled("a", 40, 2, outputs=17, resumed=tuple(range(42)))
    worker.execute(Scheduled("other", 0, 8, new=tuple(range(8))), Scheduled("a", 0, 25, new=tuple(range(25))))
    worker.sample()
    worker.execute(Scheduled("other", 8, 1 + DRAFTS, drafts=DRAFTS, outputs=1), resumed)
    found = kinds(worker, suggested)
    assert found == (1, 1), f"decodes and prefills are {found}: two known tokens run as drafts"


def check_new(suggested: bool) -> None:
    """A new prompt of three tokens has no state to decode from."""
    worker = make_worker()
    worker.execute(drafting(worker), Scheduled("a", 0, 3, new=(1, 2, 3)))
    found = kinds(worker, suggested)
    assert found == (1, 1), f"decodes and prefills are {found}: a new prompt is a decode"


def check_last_tokens(suggested: bool) -> None:
    """The last two tokens of a prompt are no drafts."""
    worker = make_worker()
    other = drafting(worker)
    worker.execute(other, Scheduled("a", 0, 24, new=tuple(range(26))))
    worker.sample()
    worker.execute(other._replace(computed=9, outputs=2), Scheduled("a", 24, 2))
    found = kinds(worker, suggested)
    assert found == (1, 1), f"decodes and prefills are {found}: the end of a prompt runs as drafts"


def check_v2(suggested: bool) -> None:
    """V2 passes drafts and accepted counts to the builders of all layers with states."""
    worker = make_worker()
    worker.execute(drafting(worker))
    common, _ = worker.code.received[MAMBA]
    builder = builder_of(worker.engine)
    given = {"num_accepted_tokens": torch.ones(1), "num_decode_draft_tokens_cpu": torch.full((1,), DRAFTS)}
    made = module("vllm.v1.worker.gpu.model_states.mamba_hybrid").MambaHybridAttnMetadata
    passed = given if suggested else made(torch.zeros(1, dtype=torch.bool), **given).get_extra_attn_kwargs(builder, 1)
    metadata = builder.build(0, common, **passed)
    found = metadata.num_decodes, metadata.num_prefills
    assert found == (1, 0), f"decodes and prefills are {found}: V2 runs drafts as a prefill"


def run(suggested: bool) -> None:
    """The suggested rules: a row is a prefill if it prefills its prompt, or has two or more tokens and no drafts; and
    V2 passes what V1 passes."""
    all_show((check_resumed, check_new, check_last_tokens, check_v2), suggested)
