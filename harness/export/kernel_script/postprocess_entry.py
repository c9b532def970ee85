"""The V1 runner's call after a step: stage the numbers, run the kernel, copy the accepted counts back to the host."""

from __future__ import annotations

from harness.export.kernel_script.case import Operation
from harness.export.kernel_script.expected import Expected, after_moves
from harness.export.kernel_script.host_objects import Host
from harness.export.kernel_script.memory import Image, Memory
from harness.export.kernel_script.objects import Setup
from harness.export.kernel_script.postprocess_rule import after_step


def expect_postprocess_entry(operation: Operation, memory: Memory, before: Image) -> Expected:
    decided = [after_step(row, memory.case.block_size) for row in operation.rows]
    counts = list(operation.options["accepted_on_host"])
    counts[: len(decided)] = [accepted for _, accepted in decided]
    image = after_moves(memory, before, [move for move, _ in decided if move])
    return Expected(image, {"accepted counts on the host": counts})


def call_postprocess_entry(operation: Operation, setup: Setup) -> dict[str, list[int]]:
    import torch

    host, worker = Host(operation, setup), setup.vllm.worker
    setup.function(worker, "stage_postprocess_inputs_to_gpu")(
        setup.context, host.scheduler_output(), host.names, len(host.names), host.requests, host.columns
    )
    setup.function(worker, "postprocess_mamba_align_gpu")(
        bufs=setup.buffers,
        num_reqs=len(host.names),
        num_accepted_tokens_gpu=setup.arrays["accepted"],
        num_accepted_tokens_cpu_tensor=host.accepted,
        input_batch=host.input_batch(),
        kv_cache_config=setup.config,
        forward_context=setup.forward_context,
        mamba_state_copy_funcs=setup.copy_functions,
    )
    if setup.device.type == "cuda":  # the counts are copied asynchronously
        torch.cuda.synchronize()
    return {"accepted counts on the host": host.accepted.tolist()}
