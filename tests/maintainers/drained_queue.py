"""drained-queue: a V1 worker uses counts that are exact as they are (docs/reports/drained-queue.md).

In vLLM's tests: an asynchronous `model_runner`, and `scheduler_output`s whose last one has exact counts.
"""

from __future__ import annotations

import dataclasses

from tests.maintainers.objects import Scheduled, V1Worker, config

ISSUE = "drained-queue"


def check(worker: V1Worker) -> None:
    """A prompt of 12 tokens; the next step runs one token and three drafts, all rejected. Its output is delivered while
    scheduling is paused, so the step after the resume comes with the exact count of 13."""
    worker.execute(Scheduled("a", 0, 12, new=tuple(range(12))))
    worker.sample()
    worker.execute(Scheduled("a", 12, 4, drafts=3, outputs=1))
    worker.sample(a=1)
    worker.execute(Scheduled("a", 13, 4, drafts=3, outputs=2), delivered=True)
    column = worker.mamba_state_idx["a"]
    assert column == 2, f"tokens 13 to 17 end in column 2 of blocks of 8 tokens, and preprocess_mamba took {column}"


def run(suggested: bool) -> None:
    """The suggested rule: once all outputs are delivered, the worker forgets how many drafts its last step had."""
    settings = config(spec_method="mtp", num_spec=3, asynchronous=True)
    check(V1Worker(settings, lambda rules: dataclasses.replace(rules, trusts_delivered_counts=suggested)))
