"""The V2 pair: the V2 runner's host code beside our model of it (pairing.py)."""

from __future__ import annotations

from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.pairing import PairedWorkers
from harness.kernels.targets.vllm.scheduling.rules import RunnerRules
from harness.kernels.targets.vllm.scheduling.worker_v2 import WorkerV2
from harness.kernels.targets.vllm.scheduling.worker_v2_host import HostWorkerV2


class PairedWorkerV2(PairedWorkers[WorkerV2, HostWorkerV2]):
    """See module docstring."""

    has_slots = True

    def __init__(self, engine: Engine, rules: RunnerRules) -> None:
        super().__init__(WorkerV2(engine, rules), HostWorkerV2(engine, rules))
