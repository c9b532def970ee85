"""Scripting is giving the runner what a sequence says, in the place of what a model or a device would do."""

from __future__ import annotations

import importlib
from typing import Any

from harness.end_to_end.inside.chosen_stop import RUNNER, with_chosen_stops, with_delivered_stops
from harness.end_to_end.inside.device_tokens import with_device_tokens
from harness.end_to_end.inside.late_counts import with_landing, with_late_counts
from harness.end_to_end.inside.replacing import Replacer
from harness.end_to_end.inside.scripted_drafter import propose
from harness.end_to_end.inside.scripted_model_drafter import DRAFTERS, scripted_model_drafter


def script_runner(replacer: Replacer, *, late: bool) -> None:
    """Script all runners of this process; `late` where the device does everything at once, and a GPU would not."""
    from vllm.v1.spec_decode.ngram_proposer import NgramProposer

    kind: Any = importlib.import_module(RUNNER).GPUModelRunner
    replacer.attribute(
        kind,
        "_sample",
        with_device_tokens(with_chosen_stops(kind._sample)),
        "itself, and a stop token where the sequence has one",
        "what a real model says cannot be chosen",
    )
    kind.sample_tokens = with_delivered_stops(kind.sample_tokens)
    if late:
        replacer.attribute(
            kind,
            "_update_states_after_model_execute",
            with_late_counts(kind._update_states_after_model_execute),
            "itself; accepted counts of asynchronous engines reach the host when it waits for them",
            "on a CPU they are there at once",
        )
        kind.sample_tokens = with_landing(kind.sample_tokens)
    why = "drafts are part of the sequence"
    replacer.attribute(NgramProposer, "propose", propose, "the drafts that the sequence says", why)
    drafter = scripted_model_drafter()
    replacer.in_module(
        RUNNER, dict.fromkeys(DRAFTERS, drafter), "the release's drafter, with those drafts and without a model", why
    )
