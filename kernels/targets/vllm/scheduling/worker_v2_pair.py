"""The V2 pair: the V2 runner's host code beside our model of it (pairing.py)."""

from __future__ import annotations

from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.pairing import PairedWorkers, of_both
from harness.kernels.targets.vllm.scheduling.worker_v2 import WorkerV2
from harness.kernels.targets.vllm.scheduling.worker_v2_host import HostWorkerV2


class PairedWorkerV2(PairedWorkers):
    """See module docstring."""

    has_slots = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(WorkerV2(engine), HostWorkerV2(engine))

    pads_fresh_rows = of_both("pads_fresh_rows")
    runs_one_token_as_decode = of_both("runs_one_token_as_decode")
    seeds_mamba_columns = of_both("seeds_mamba_columns")
