"""All mode keeps states for every block: the V1 runner's host code around a step, in releases that have it."""

from __future__ import annotations

from harness.case import Layout
from harness.kernels.host_buffer import HostBuffer
from harness.kernels.targets.arguments import HostBatch
from harness.kernels.targets.vllm.host_path import HostPath


class AllModeHost:
    """The host code of one runner; it stages columns in `buffer`."""

    def __init__(self, host: HostPath, layout: Layout, buffer: HostBuffer) -> None:
        self._host, self._layout = host, layout
        self.buffer = buffer

    def step(self, batch: HostBatch) -> None:
        """Run the host code before a step, and after it."""
        host, worker = self._host, self._host.worker
        output, input_batch = host.scheduler_output(batch), host.input_batch(batch)
        worker.preprocess_mamba_all_specdec(output, input_batch, batch.columns, batch.num_requests, self.buffer)
        worker.postprocess_mamba_all(
            output,
            host.objects.config,
            input_batch,
            host.requests(batch),
            batch.columns,
            self._layout.num_spec,
            batch.num_requests,
        )
