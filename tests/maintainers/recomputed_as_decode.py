"""recomputed-as-decode: outputs that are computed again run as a prefill (docs/reports/recomputed-as-decode.md).

In vLLM's tests: a `model_runner` whose attention metadata builder is that of Mamba2, or `_compute_common_metadata`
alone with `is_prefilling` as `_build_attention_metadata` sets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.maintainers.objects import Scheduled, V1Worker, config

ISSUE = "recomputed-as-decode"
OUTPUTS = 17
"""How many tokens the preempted request had made; its prompt has 25."""


def kinds(worker: V1Worker) -> tuple[int, int]:
    """How many rows of the step the layers run as decodes and as prefills."""
    metadata = worker.mamba2_metadata()
    return metadata.num_decodes, metadata.num_prefills


def check(make: Callable[[], V1Worker]) -> None:
    """A row of drafts is in every batch: up to 0.31 layers are not told of speculation otherwise. The resumed row has
    more outputs than the worker sampled for it, which changes nothing: all its tokens come with it."""
    worker = make()
    resumed = Scheduled("a", 40, 2, outputs=OUTPUTS, resumed=tuple(range(42)))
    worker.execute(Scheduled("other", 0, 3, new=(1, 2, 3)), Scheduled("a", 0, 25, new=tuple(range(25))))
    worker.sample()
    worker.execute(Scheduled("other", 3, 4, drafts=3, outputs=1), resumed)
    assert kinds(worker) == (1, 1), f"decodes and prefills are {kinds(worker)}: two known tokens run as drafts"

    # A prompt of one token has no state yet, so it stays a prefill.
    worker = make()
    worker.execute(Scheduled("other", 0, 3, new=(1, 2, 3)))
    worker.sample()
    worker.execute(Scheduled("other", 3, 4, drafts=3, outputs=1), Scheduled("one token", 0, 1, new=(5,)))
    assert kinds(worker) == (1, 1), f"decodes and prefills are {kinds(worker)}: a row without a state is a decode"

    # Drafts of a row that stands behind the resumed one are a decode all the same.
    worker = make()
    worker.execute(Scheduled("a", 0, 25, new=tuple(range(25))))
    worker.sample()
    worker.execute(
        Scheduled("a", 24, 16, outputs=OUTPUTS, resumed=tuple(range(42))), Scheduled("other", 0, 3, new=(1, 2, 3))
    )
    worker.sample()
    worker.execute(Scheduled("a", 40, 2, outputs=OUTPUTS), Scheduled("other", 3, 4, drafts=3, outputs=1))
    assert kinds(worker) == (1, 1), f"decodes and prefills are {kinds(worker)}: drafts behind the row run as a prefill"


def prefill_end(batch: Any) -> Any:
    """Up to which token each row of a batch prefills, as the scheduler has it: all of the prompt, and all that is known
    but the last token."""
    return np.maximum(batch.num_prompt_tokens, batch.num_tokens_no_spec - 1)


def run(suggested: bool) -> None:
    """The suggested rule: a row prefills up to the scheduler's own `prefill_end`, not up to the end of the prompt, both
    where the batch is sorted and where metadata are made."""
    settings = config(spec_method="mtp", num_spec=3, asynchronous=True)
    check(lambda: V1Worker(settings, prefill_end=prefill_end if suggested else None))
