"""Features are read from the sources, and unknown forms are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kernels.targets.vllm.features import Features, features
from harness.kernels.targets.vllm.sources import CACHE_OPTIONS, INPUT_BATCH, LAYERS, OPTIONS, WORKER, SourceTree
from harness.refusal import UnknownTarget

OLDEST = """
def postprocess_mamba_fused_kernel(accepted, num_reqs): ...

class MambaSpecDecodeGPUContext:
    def create(cls, max_num_reqs, kv_cache_config, num_state_types, device, make_buffer): ...
    def initialize_from_forward_context(
        self, kv_cache_config, forward_context, mamba_state_copy_funcs, block_tables
    ): ...
    def run_fused_postprocess(
        self, num_reqs, num_accepted_tokens_gpu, mamba_state_idx_gpu,
        num_scheduled_tokens_gpu, num_computed_tokens_gpu, num_draft_tokens_gpu,
    ): ...
"""
NEWEST = """
def postprocess_mamba_fused_kernel(accepted, num_reqs, CONV_STATE_DIM_FIRST): ...
def precopy_mamba_align_fused_kernel(columns, num_reqs, HAS_IDX_MAPPING): ...

class MambaSpecDecodeGPUContext:
    def create(cls, max_num_reqs, kv_cache_config, copy_funcs, device, make_buffer): ...
    def initialize_from_forward_context(
        self, kv_cache_config, forward_context, mamba_state_copy_funcs, block_tables, aligned_index_block_tables=None
    ): ...
    def run_fused_postprocess(
        self, num_reqs, num_accepted_tokens_gpu, mamba_state_idx_gpu,
        num_scheduled_tokens_gpu, num_computed_tokens_gpu, num_draft_tokens_gpu,
    ): ...
    def run_fused_precopy(self, num_reqs, state_idx_gpu, src_col_gpu, token_bias_gpu, idx_mapping: T | None): ...
    def run_fused_postprocess_align(
        self, num_reqs, num_accepted_tokens_gpu, state_idx_gpu, new_num_computed_tokens_gpu, idx_mapping
    ): ...
"""


def tree(directory: Path, worker: str, input_batch: str = "") -> SourceTree:
    for file, text in {WORKER: worker, LAYERS: "", INPUT_BATCH: input_batch}.items():
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return SourceTree(directory, "the sample", stable=True)


def test_the_oldest_form(tmp_path: Path) -> None:
    assert features(tree(tmp_path, OLDEST)) == Features(
        v1_postprocess=True,
        v2=False,
        v2_postprocess=False,
        v2_precopy=False,
        v1_precopy=False,
        states_per_layer=False,
        rows_by="batch",
        mapping_bits=32,
        advance=False,
        scatter=False,
        fill=False,
        aligned_indices=False,
        host_path=False,
        host_functions=frozenset(),
        lists_after_step=False,
        validates_functions=False,
        uncopied="never",
        all_mode=False,
    )


@pytest.mark.parametrize("bits", [32, 64])
def test_the_newest_form(tmp_path: Path, bits: int) -> None:
    made = f"idx_mapping = torch.arange(num_reqs, dtype=torch.int{bits}, device=device)\n"
    found = features(tree(tmp_path, NEWEST, made))
    assert (found.v2, found.v1_precopy, found.states_per_layer) == (True,) * 3
    assert (found.rows_by, found.mapping_bits) == ("slot", bits)


@pytest.mark.parametrize(
    ("options", "refusals", "found"),
    [
        ("", "", "never"),
        (
            "use_replayssm: bool = False",
            'raise ValueError("--use-replayssm does not support speculative decoding")',
            "without drafts",
        ),
        ("use_replayssm: bool = False", 'warn("--use-replayssm does not support speculative decoding")', "always"),
    ],
)
def test_cache_tensors_that_are_not_copied(tmp_path: Path, options: str, refusals: str, found: str) -> None:
    sample = tree(tmp_path, OLDEST)
    for file, text in {CACHE_OPTIONS: options, OPTIONS: refusals}.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    assert features(sample).uncopied == found


def test_a_parameter_that_is_not_known(tmp_path: Path) -> None:
    worker = NEWEST.replace("copy_funcs, device", "copy_funcs, stream, device")
    with pytest.raises(UnknownTarget, match=r"the sample: MambaSpecDecodeGPUContext\.create has parameters unknown"):
        features(tree(tmp_path, worker, "idx_mapping = torch.arange(3, dtype=torch.int32)\n"))


def test_a_mapping_type_that_cannot_be_found(tmp_path: Path) -> None:
    with pytest.raises(UnknownTarget, match="cannot find the type of idx_mapping"):
        features(tree(tmp_path, NEWEST, "idx_mapping = make()\n"))


def test_sources_without_the_context(tmp_path: Path) -> None:
    with pytest.raises(UnknownTarget, match=r"has no MambaSpecDecodeGPUContext in .*mamba_utils\.py \(it came with "):
        features(tree(tmp_path, "def batch_memcpy(): ...\n"))


def test_sources_in_the_middle_of_an_edit(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownTarget, match=r"^the sample: vllm/v1/worker/mamba_utils\.py is not valid Python: "
    ) as caught:
        features(tree(tmp_path, OLDEST + "def half("))
    assert "\n" not in str(caught.value)
