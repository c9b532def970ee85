"""Messages are what the harness and a process with an engine say to each other, in addition to those of all workers.

Both sides import this module, so it needs nothing but msgspec.
"""

from __future__ import annotations

import msgspec

from harness.case.sequence import Layers, SequenceCase, SequenceConfig, SpecMethod
from harness.case.step_row import StepRow

DEFAULT_LAYERS: Layers = "mamba2"
"""The layers of sequences that name none: their batches run as Mamba2 runs them."""


def model_of(config: SequenceConfig, attention_first: bool = False) -> ModelKind:
    """The model that a sequence asks for."""
    return ModelKind(config.layers or DEFAULT_LAYERS, config.mamba_groups, attention_first)


class EngineAssignment(msgspec.Struct, frozen=True):
    """What an engine's process is started with. `models` is the folder for checkpoints, `seed` that of their weights;
    `faults` are planted in the release's fused kernels, by name (`harness targets`)."""

    models: str
    seed: int = 7
    faults: tuple[str, ...] = ()


class ModelKind(msgspec.Struct, frozen=True):
    """A tiny model: `count` layers of one kind that keep states, each a KV-cache group of its own, and a layer of
    attention. It is behind the first of them: then nothing that happens to a state is forgotten soon. With
    `attention_first` its group is the first, as in symbolic runs, so that block ids are the same."""

    layers: Layers
    count: int
    attention_first: bool = False


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine is made. Sizes are in tokens, `num_blocks` in blocks. `plain`: no prefix caching, no drafts, one
    request at a time. `spec_method` is where its `num_spec` drafts come from, to all but the drafter itself."""

    mamba_layers: int
    layers: Layers = "mamba2"
    attention_first: bool = False
    plain: bool = False
    block_size: int = 32
    num_blocks: int = 64
    length_limit: int = 1024
    budget: int = 2048
    requests: int = 1
    num_spec: int = 0
    spec_method: SpecMethod = "ngram"
    asynchronous: bool = False
    prefill_threshold: int = 0
    policy: str = "fcfs"
    retention: int | None = 0
    match_unit: int | None = None
    shared_prefix_checkpoint: bool = False

    @property
    def model(self) -> ModelKind:
        """The model of the engine."""
        return ModelKind(self.layers, self.mamba_layers, self.attention_first)


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine turned out to be. `groups` are its KV-cache groups in order: kind and block size;
    `checkpoint_alignment` is None where layers export no states inside a prefill. `window` is the width of the
    convolution."""

    version: str
    groups: tuple[tuple[str, int], ...]
    num_blocks: int
    checkpoint_alignment: int | None
    window: int
    retention: int | None
    runner: str


class RunSequence(msgspec.Struct, frozen=True, kw_only=True):
    """Run a sequence on an engine, and its requests plainly. `record`: note what each step gives its rows."""

    sequence: SequenceCase
    record: bool = False


class RequestTokens(msgspec.Struct, kw_only=True):
    """What an engine said of one request, next to the plain run: `margins` are the distances between the logits of the
    plain run's two best tokens, `steps` the numbers of the steps that said each token, from 1. What is due is there as
    far as the engine got. `prompt` is how many tokens the prompt has."""

    request: int
    prompt: int
    said: list[int]
    due: list[int]
    margins: list[float]
    steps: list[int] = []
    prompt_tokens: list[int] = []


class SequenceAnswer(msgspec.Struct, kw_only=True):
    """What a sequence did on an engine. `raised` is the exception that ended it, `refused` why the engine does not
    start. `scheduled` has the tokens that each step gave each request, in the scheduler's order. `noise` is the largest
    difference of two logits between clean runs of the model. `fault_step` is the step in which the first access was
    refused; `raised_type` and `raised_in` are the class of the exception and the function that raised it. `recorded`
    are the rows of each step that has any, where the question asked for them."""

    requests: list[RequestTokens] = []
    scheduled: list[list[tuple[int, int, int]]] = []
    recorded: list[list[StepRow]] = []
    facts: EngineFacts | None = None
    replaced: list[str] = []
    kernel_faults: list[str] = []
    kernel_launches: int = 0
    raised: str | None = None
    raised_type: str = ""
    raised_in: str = ""
    fault_step: int = 0
    counters: dict[str, int] = {}
    refused: str | None = None
    noise: float = 0.0
    steps: int = 0
    seconds: float = 0.0


class Sensitivity(msgspec.Struct, kw_only=True):
    """Of each kind of damage: in how many of the tries tokens changed within `within` tokens."""

    noticed: dict[str, int]
    tries: int
    within: int


RUN_DECODER = msgspec.msgpack.Decoder(RunSequence)
ANSWER_DECODER = msgspec.msgpack.Decoder(SequenceAnswer)
MODEL_DECODER = msgspec.msgpack.Decoder(ModelKind)
OPTIONS_DECODER = msgspec.msgpack.Decoder(EngineOptions)
FACTS_DECODER = msgspec.msgpack.Decoder(EngineFacts)
SENSITIVITY_DECODER = msgspec.msgpack.Decoder(Sensitivity)
ENCODER = msgspec.msgpack.Encoder()
