"""recomputed-as-decode: outputs that are computed again run as a prefill (docs/reports/recomputed-as-decode.md).

In vLLM's tests: a `model_runner` whose attention metadata builder is that of Mamba2, or `_compute_common_metadata`
alone with `is_prefilling` as `_build_attention_metadata` sets it.
"""

from __future__ import annotations

from typing import Any

from tests.maintainers.objects import Scheduled, V1Worker, config

ISSUE = "recomputed-as-decode"


def check(worker: V1Worker) -> None:
    """A request with 25 tokens of prompt and 17 outputs was preempted, and comes back with 40 tokens computed. The row
    of the other request has drafts: up to 0.31 layers are not told of speculation otherwise."""
    worker.execute(Scheduled("other", 0, 3, new=(1, 2, 3)), Scheduled("a", 0, 25, new=tuple(range(25))))
    worker.sample()
    worker.execute(
        Scheduled("other", 3, 4, drafts=3, outputs=1),
        Scheduled("a", 40, 2, outputs=17, resumed=tuple(range(42))),
    )
    metadata = worker.mamba2_metadata()
    found = (metadata.num_decodes, metadata.num_prefills)
    assert found == (1, 1), f"decodes and prefills are {found}: two known tokens run as a decode of drafts"


def before_last_known_token(batch: Any) -> Any:
    """Which rows prefill: all but those that start at the last token that is known, whoever made it."""
    rows = batch.num_reqs
    return batch.num_computed_tokens_cpu_tensor[:rows] < batch.num_tokens_no_spec_cpu_tensor[:rows] - 1


def run(suggested: bool) -> None:
    """The suggested rule: a row prefills up to the last known token, not up to the end of the prompt."""
    settings = config(spec_method="mtp", num_spec=3, asynchronous=True)
    check(V1Worker(settings, is_prefilling=before_last_known_token if suggested else None))
