"""What a sequence says, in the place of a model or a device: device tokens, late counts, model drafters, groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.case.sequence import SequenceConfig
from harness.end_to_end.inside.chosen_stop import with_chosen_stops, with_delivered_stops
from harness.end_to_end.inside.device_tokens import DeviceTokens, with_device_tokens
from harness.end_to_end.inside.late_counts import LandingEvent, with_landing, with_late_counts
from harness.end_to_end.inside.overruling import mark_drafters_group, overrule
from harness.end_to_end.inside.scripted_run import due_outputs
from harness.end_to_end.inside.tiny_model import STOP
from harness.end_to_end.messages import EngineOptions


def runner(*lengths: int, unfinished: tuple[bool, ...] = (), **more: Any) -> Any:
    names = [f"{i}" for i in range(len(lengths))]
    return SimpleNamespace(
        seq_lens=torch.tensor(lengths),
        discard_request_mask=SimpleNamespace(np=list(unfinished) or [False] * len(lengths)),
        input_batch=SimpleNamespace(req_ids=names, num_accepted_tokens_cpu_tensor=torch.ones(4, dtype=torch.int32)),
        requests={name: SimpleNamespace(prompt_token_ids=[10, 11]) for name in names},
        **more,
    )


def test_device_tokens_follow_what_was_accepted() -> None:
    tokens = DeviceTokens()
    tokens.sampled(runner(2), torch.tensor([[5]]), None)
    assert tokens.of("0") == [10, 11, 5]
    tokens.sampled(runner(5), torch.tensor([[6, 7, -1]]), [2])  # 3 tokens ran, two of them drafts, of which one is kept
    assert tokens.of("0") == [10, 11, 5, 6, 7]
    tokens.sampled(runner(4), torch.tensor([[8]]), None)  # after a preemption a token less is known
    assert tokens.of("0") == [10, 11, 5, 6, 8]


def test_rows_whose_prompt_continues_sample_nothing() -> None:
    tokens = DeviceTokens()
    tokens.sampled(runner(1, 2, unfinished=(True, False)), torch.tensor([[5], [6]]), None)
    assert (tokens.of("0"), tokens.of("1")) == ([], [10, 11, 6])


def test_tokens_that_were_never_sampled_are_unknown() -> None:
    tokens = DeviceTokens()
    tokens.sampled(runner(4), torch.tensor([[5]]), None)
    assert tokens.of("0") == [10, 11, -1, -1, 5]


def test_the_sampler_is_noted_for_engines_with_drafts_and_asynchronous_ones() -> None:
    output = SimpleNamespace(sampled_token_ids=torch.tensor([[5]]))
    sample = with_device_tokens(lambda self, logits, metadata: output)
    for num_spec, asynchronous, known in ((0, False, []), (2, False, [10, 11, 5]), (0, True, [10, 11, 5])):
        options = EngineOptions(mamba_layers=1, num_spec=num_spec, asynchronous=asynchronous)
        engine = SimpleNamespace(options=options, device_tokens=DeviceTokens())
        assert sample(runner(2, scripted_engine=engine), None, None) is output
        assert engine.device_tokens.of("0") == known


def engine(asynchronous: bool) -> Any:
    return SimpleNamespace(options=EngineOptions(mamba_layers=1, num_spec=2, asynchronous=asynchronous))


def count(self: Any, tokens: torch.Tensor) -> None:
    self.input_batch.num_accepted_tokens_cpu_tensor[: tokens.shape[0]] = 3


@pytest.mark.parametrize("asynchronous", [False, True])
def test_counts_of_asynchronous_engines_land_when_the_runner_waits(asynchronous: bool) -> None:
    self = runner(4, scripted_engine=engine(asynchronous), num_accepted_tokens_event=None)
    host = self.input_batch.num_accepted_tokens_cpu_tensor
    with_late_counts(count)(self, torch.tensor([[5, 6, 7]]))
    assert host.tolist() == ([1, 1, 1, 1] if asynchronous else [3, 1, 1, 1])
    if asynchronous:
        self.num_accepted_tokens_event.synchronize()
        assert host.tolist() == [3, 1, 1, 1]
        host[0] = 2
        self.num_accepted_tokens_event.synchronize()  # it lands once
        assert host.tolist() == [2, 1, 1, 1]


def test_counts_have_landed_when_their_output_has() -> None:
    host = torch.ones(2, dtype=torch.int32)
    self = SimpleNamespace(num_accepted_tokens_event=LandingEvent(host, torch.tensor([3])))
    output = SimpleNamespace(get_output=host.clone)
    assert with_landing(lambda runner: output)(self) is output
    assert host.tolist() == [1, 1]
    assert output.get_output().tolist() == [3, 1]


def test_a_configuration_is_as_the_sequence_asks() -> None:
    config = SimpleNamespace(
        scheduler_config=SimpleNamespace(async_scheduling=False), speculative_config=SimpleNamespace(method="ngram")
    )
    overrule(config, EngineOptions(mamba_layers=1, num_spec=2, spec_method="mtp", asynchronous=True))
    assert config.scheduler_config.async_scheduling
    assert config.speculative_config.method == "mtp"


@pytest.mark.parametrize("drops", [True, False])
def test_hits_give_up_a_block_in_the_group_of_the_drafters_layer(drops: bool) -> None:
    mamba, attention = SimpleNamespace(mamba_type="mamba2"), SimpleNamespace()
    groups = [SimpleNamespace(kv_cache_spec=spec, is_eagle_group=True) for spec in (attention, mamba)]
    speculative = SimpleNamespace(use_eagle_block_drop=lambda: drops, use_eagle=lambda: True)
    mark_drafters_group(SimpleNamespace(speculative_config=speculative), SimpleNamespace(kv_cache_groups=groups))
    assert [group.is_eagle_group for group in groups] == [drops, False]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_of_an_asynchronous_engine_only_the_host_gets_a_chosen_stop(asynchronous: bool) -> None:
    sampled = torch.tensor([[20, 21, -1], [22, 23, 24]])
    options = EngineOptions(mamba_layers=1, num_spec=2, asynchronous=asynchronous)
    self = runner(9, 9, scripted_engine=SimpleNamespace(options=options, stops={"0"}, stopping={}))
    with_chosen_stops(lambda runner: SimpleNamespace(sampled_token_ids=sampled))(self)
    assert sampled.tolist() == [[20, 21 if asynchronous else STOP, -1], [22, 23, 24]]
    made = SimpleNamespace(sampled_token_ids=[[22, 23, 24], [20, 21]], req_id_to_index={"1": 0, "0": 1})
    output = SimpleNamespace(get_output=lambda: made)
    with_delivered_stops(lambda runner: output)(self)
    assert output.get_output().sampled_token_ids == [[22, 23, 24], [20, STOP if asynchronous else 21]]
    later = SimpleNamespace(get_output=made)
    assert with_delivered_stops(lambda runner: later)(self).get_output is made  # once
    assert self.scripted_engine.stops == set()


def limited(**changes: Any) -> SequenceConfig:
    fields: dict[str, Any] = {
        "runner": "V1",
        "block_size": 32,
        "spec_method": "eagle",
        "num_spec": 4,
        "length_limit": 223,
        "budget": 74,
        "requests": 4,
        "num_blocks": 32,
    }
    return SequenceConfig(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "prompt", "outputs", "due"),
    [
        ({}, 95, 35, 40),  # the last step says a token too many, and all four drafts
        ({"asynchronous": True}, 95, 35, 45),  # another step is in flight when it ends
        ({"asynchronous": True, "num_spec": 0, "spec_method": "none"}, 95, 35, 37),
        ({"asynchronous": True}, 180, 40, 44),  # no draft is further than the length limit
        ({}, 180, 50, 50),
    ],
)
def test_right_drafts_are_known_as_far_as_steps_in_flight_go(
    changes: dict[str, Any], prompt: int, outputs: int, due: int
) -> None:
    assert due_outputs(limited(**changes), prompt, outputs) == due
