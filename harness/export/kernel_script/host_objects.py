"""What the V1 runner's host code is given: requests, the scheduler's output, the batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.export.kernel_script.case import Operation
from harness.export.kernel_script.objects import Setup


class Host:
    """The V1 runner's objects for one batch. `columns` has the column of each request's running state, and `accepted`
    are its counts on the host; host code updates both."""

    def __init__(self, operation: Operation, setup: Setup) -> None:
        import torch

        case, groups = setup.case, setup.groups
        self.rows, self.absent = operation.rows, operation.options.get("absent", ())
        self.names = [f"request-{number}" for number in range(len(self.rows))]
        self.gone = [f"request-{len(self.rows) + number}" for number in range(len(self.absent))]
        known = {name: row.get("state_column") for name, row in zip(self.names, self.rows, strict=True)}
        known |= {name: one["state_column"] for name, one in zip(self.gone, self.absent, strict=True)}
        self.columns: dict[str, int] = {name: column for name, column in known.items() if column is not None}
        self.accepted = torch.tensor(operation.options["accepted_on_host"], dtype=torch.int32)
        self.requests: dict[str, Any] = {}
        for name, row in zip(self.names, self.rows, strict=True):
            blocks: list[list[int]] = [[] for _ in setup.config.kv_cache_groups]
            for number, table in zip(groups, case.tables, strict=True):
                blocks[number] = table[row["slot"]]
            self.requests[name] = SimpleNamespace(num_computed_tokens=row.get("computed", 0), block_ids=blocks)
        self.tables = {
            number: SimpleNamespace(get_device_tensor=lambda n, table=table: table[:n])
            for number, table in zip(groups, setup.tables, strict=True)
        }

    def scheduler_output(self) -> Any:
        drafts = {name: [0] * row.get("draft", 0) for name, row in zip(self.names, self.rows, strict=True)}
        absences = dict(zip(self.gone, (one["absence"] for one in self.absent), strict=True))
        resumed = {name for name, row in zip(self.names, self.rows, strict=True) if row.get("resumed")}
        return SimpleNamespace(
            num_scheduled_tokens={name: row["scheduled"] for name, row in zip(self.names, self.rows, strict=True)},
            scheduled_spec_decode_tokens={name: tokens for name, tokens in drafts.items() if tokens},
            finished_req_ids={name for name, absence in absences.items() if absence == "finished"},
            preempted_req_ids={name for name, absence in absences.items() if absence == "preempted"} or None,
            scheduled_cached_reqs=SimpleNamespace(resumed_req_ids=resumed),
        )

    def input_batch(self) -> Any:
        return SimpleNamespace(
            req_ids=self.names, num_accepted_tokens_cpu=self.accepted.numpy(), block_table=self.tables
        )
