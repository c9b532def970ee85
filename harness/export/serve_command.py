"""The server's command line with the settings of a finding. The model, and what follows from it, is the reader's."""

from __future__ import annotations

import json
import shlex

from harness.case import Case
from harness.case.sequence import SequenceConfig

MODEL = "MODEL"
"""Any hybrid model with the layers in question."""


def of_sequence(config: SequenceConfig) -> str:
    """For step sequences. Every setting that a scheduler reads is written out, at its default or not."""
    options = [
        *_align(),
        f"--block-size {config.block_size}",
        f"--max-model-len {config.length_limit}",
        f"--max-num-batched-tokens {config.budget}",
        f"--max-num-seqs {config.requests}",
        f"--num-gpu-blocks-override {config.num_blocks}",
        "--async-scheduling" if config.asynchronous else "--no-async-scheduling",
    ]
    if config.num_spec:
        options.append(_speculative(config.spec_method, config.num_spec))
    if config.policy != "fcfs":
        options.append(f"--scheduling-policy {config.policy}")
    if config.prefill_threshold:
        options.append(f"--long-prefill-token-threshold {config.prefill_threshold}")
    if config.retention is not None:
        options.append(f"--prefix-cache-retention-interval {config.retention}")
    if config.match_unit is not None:
        options.append(f"--prefix-match-unit {config.match_unit}")
    if config.shared_prefix_checkpoint:
        options.append("--enable-mamba-shared-prefix-checkpoint")
    return _command([f"VLLM_USE_V2_MODEL_RUNNER={int(config.runner == 'V2')}"], options)


def of_case(case: Case) -> str:
    """For kernel cases: what decides which kernels run."""
    variables = [f"VLLM_USE_V2_MODEL_RUNNER={int(any(one.runner == 'V2' for one in case.program))}"]
    if case.layout.conv_layout == "DS":
        variables.append("VLLM_SSM_CONV_STATE_LAYOUT=DS")
    options = _align()
    if case.layout.num_spec:
        options.append(_speculative("mtp", case.layout.num_spec))
    return _command(variables, options)


def _align() -> list[str]:
    return ["--enable-prefix-caching", "--mamba-cache-mode align"]


def _speculative(method: str, number: int) -> str:
    return f"--speculative-config {shlex.quote(json.dumps({'method': method, 'num_speculative_tokens': number}))}"


def _command(variables: list[str], options: list[str]) -> str:
    lines = [*variables, f"vllm serve {MODEL}"]
    return " \\\n".join([" ".join(lines), *(f"    {option}" for option in options)])
