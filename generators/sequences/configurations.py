"""Drawing the configuration of an engine: small numbers near the places where the scheduler's decisions change.

Pins fix axes, so that a campaign can cover a matrix of them. The parts of a configuration depend on each other. The
number of blocks comes last, and always lets one request of any allowed length run to its end.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from harness.case.operations import Runner
from harness.case.production_defaults import DeclaredLayers, ProductionDefaults
from harness.case.sequence import SequenceConfig, SpecMethod
from harness.generators.draw import Draw

Retention = Literal["boundaries", "multiple", "dense"]
BlockSize = Literal[4, 6, 8, 12, 16, 32]
LayersPin = Literal["mamba2", "gated-delta-net", "kda", "any"]


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    """Axes that are set and not drawn. None: drawn. `checkpoints` and `partial` say whether the feature is on.

    `tight` leaves hardly more blocks than one request needs, but room for several requests in a step, so that they
    preempt each other. `chunks` keeps the token budget so small that prompts are split into chunks.
    """

    runner: Runner | None = None
    layers: LayersPin | None = None
    asynchronous: bool | None = None
    retention: Retention | None = None
    checkpoints: bool | None = None
    partial: bool | None = None
    spec_method: SpecMethod | None = None
    block_size: BlockSize | None = None
    tight: bool | None = None
    chunks: bool | None = None


PINS: dict[str, str] = {
    "runner": "V1 or V2: the model runner",
    "layers": "mamba2, gated-delta-net or kda: the layers that have states; any: settings that no layer declares, too",
    "asynchronous": "true or false: a step is scheduled before the outputs of the one before it are delivered",
    "retention": "boundaries, multiple or dense: states kept where requests resume, at an interval too, everywhere",
    "checkpoints": "true or false: layers export states from inside a prefill chunk",
    "partial": "true or false: prefix hits may end inside a block",
    "spec_method": "none, ngram, draft_model, mtp, eagle or dflash: where drafts come from",
    "block_size": "4, 6, 8, 12, 16 or 32: tokens of a block",
    "tight": "true: hardly more blocks than one request needs, so that requests push each other out; false: drawn",
    "chunks": "true: so small a token budget that prompts come in pieces; false: drawn",
}
"""The values of each pin, and what it means."""


SIZES: tuple[tuple[int, int], ...] = ((8, 4), (4, 3), (16, 2), (12, 1), (6, 1))
"""Block sizes, and how often each is drawn."""

_OFTEN: dict[str, int] = {"mamba2": 3, "gated-delta-net": 2, "kda": 1}
"""How often each kind of layers is drawn."""

_AT_DEFAULTS = 0.4
"""The share of configurations of a release with all options at their defaults."""


def draw_configuration(
    draw: Draw, pins: Pins | None = None, defaults: ProductionDefaults | None = None
) -> SequenceConfig:
    """A valid configuration. With the `defaults` of a release it has layers that its models have, with the checkpoints
    that they declare, a drafting method that its runner takes, and scheduling that this method allows."""
    pins = pins or Pins()
    if pins.layers == "any":
        defaults = None
    runner: Runner = draw.choice(("V1", "V2")) if pins.runner is None else pins.runner
    asynchronous = draw.boolean() if pins.asynchronous is None else pins.asynchronous
    declared = None if defaults is None else _layers(draw, pins, defaults)
    sizes = SIZES
    if declared is not None and isinstance(declared.checkpoints, int):
        alignment = declared.checkpoints
        sizes = tuple((size, often) for size, often in (*SIZES, (32, 1)) if size % alignment == 0)
    block_size: int = pins.block_size or draw.weighted(sizes)
    drawn: SpecMethod = draw.weighted(
        (("mtp", 5), ("eagle", 3), ("draft_model", 3), ("dflash", 2), ("ngram", 2), ("none", 2))
    )
    method: SpecMethod = pins.spec_method or drawn
    if defaults is not None:
        if method not in defaults.methods[runner] and pins.spec_method is None:
            method = "mtp"
        if asynchronous and method not in defaults.asynchronous[runner]:
            if pins.spec_method is None:
                method = "mtp"
            elif pins.asynchronous is None:
                asynchronous = False
    elif method == "ngram" and asynchronous:
        method = "mtp"  # this drafter reads sampled tokens on the host, which asynchronous engines refuse
    num_spec = 0
    if method != "none":  # one draft is what many models have
        num_spec = 1 if draw.boolean(0.2) else draw.boundary(1, min(block_size - 1, 5), (2, 3))
    retention = _retention(draw, pins, block_size)
    if defaults is not None and defaults.retention is None and pins.retention is None:
        retention = None  # the release has no such option
    checkpoints = draw.boolean(0.3) if pins.checkpoints is None else pins.checkpoints
    partial = draw.boolean(0.3) if pins.partial is None else pins.partial
    units = [unit for unit in (2, 3, 4, 8) if unit < block_size and block_size % unit == 0]
    match_unit = draw.choice(units) if partial else block_size
    drafter = None
    if method in ("draft_model", "dflash", "eagle") and draw.boolean(0.5):
        drafter = draw.choice([size for size in (block_size, *units) if size % match_unit == 0])
    limit = block_size * draw.integer(3, 9) + draw.integer(-1, 2)
    least = num_spec + 1
    # With a budget of hardly a token, requests would never share a step: as a rule there is room for several.
    budget = draw.integer(2 * block_size, 6 * block_size)
    if draw.boolean(0.4):
        budget = draw.boundary(
            max(least, 4), 6 * block_size, (block_size, block_size + 1, 2 * block_size, least + block_size)
        )
    if pins.tight:
        budget = max(budget, 3 * block_size)
    if pins.chunks:
        budget = max(least + 1, block_size + draw.integer(1, block_size - 1))
    threshold = draw.choice((0, 0, 0, block_size, block_size // 2, 2 * block_size))
    requests = draw.integer(4, 6) if pins.tight else draw.integer(2, 6)
    fields: dict[str, Any] = {
        "runner": runner,
        "asynchronous": asynchronous,
        "block_size": block_size,
        "mamba_groups": draw.weighted(((1, 5), (2, 2), (3, 1))),
        "drafter_block_size": drafter,
        "spec_method": method,
        "num_spec": num_spec,
        "retention": retention,
        "checkpoint_alignment": draw.choice((1, 1, 2, block_size // 2)) if checkpoints else None,
        "match_unit": match_unit if partial or drafter is not None else None,
        "shared_prefix_checkpoint": partial and draw.boolean(0.3),
        "policy": draw.weighted((("fcfs", 3), ("priority", 1))),
        "kernel": draw.weighted(((4, 4), (2, 1), (3, 1))),
        "length_limit": limit,
        "budget": max(budget, least + _drafting_slots(method, num_spec)),
        "prefill_threshold": threshold,
        "requests": requests,
        "num_blocks": 4096,
        "vocabulary": draw.weighted(((2, 3), (4, 2))),
    }
    if block_size % (fields["checkpoint_alignment"] or 1):
        fields["checkpoint_alignment"] = 1
    if defaults is not None and draw.boolean(_AT_DEFAULTS):
        fields.update(_default_options(method, runner, pins, defaults))
    if declared is not None:
        fields["layers"] = declared.layers
        fields["checkpoint_alignment"] = declared.alignment_for(fields["match_unit"], block_size)
    least_blocks = SequenceConfig(**fields).blocks_for_one()
    most_blocks = least_blocks + 4 if pins.tight else least_blocks * requests + 8
    fields["num_blocks"] = draw.boundary(least_blocks, most_blocks, (least_blocks + 4, 2 * least_blocks))
    return SequenceConfig(**fields)


def _default_options(method: SpecMethod, runner: Runner, pins: Pins, defaults: ProductionDefaults) -> dict[str, Any]:
    """The options of a user who sets none but the drafting method, where they are not pinned."""
    default_runner = defaults.runners[method] if pins.runner is None else runner
    fields: dict[str, Any] = {
        "runner": default_runner,
        "policy": defaults.policy,
        "prefill_threshold": defaults.prefill_threshold,
        "drafter_block_size": None,
    }
    if pins.asynchronous is None:
        fields["asynchronous"] = method in defaults.asynchronous[default_runner]
    if pins.retention is None:
        fields["retention"] = defaults.retention
    if not pins.partial:
        fields["match_unit"] = defaults.match_unit
        fields["shared_prefix_checkpoint"] = defaults.shared_prefix_checkpoint
    return fields


def _layers(draw: Draw, pins: Pins, defaults: ProductionDefaults) -> DeclaredLayers | None:
    """Layers of the release that the pins allow; None if it has none with such checkpoints."""
    sizes = [size for size, _ in SIZES] + [32] if pins.block_size is None else [pins.block_size]
    allowed = [
        one
        for one in defaults.layers
        if pins.layers in (None, one.layers)
        and (pins.checkpoints is None or pins.checkpoints == (one.checkpoints is not None))
        and (not isinstance(one.checkpoints, int) or any(size % one.checkpoints == 0 for size in sizes))
    ]
    return draw.weighted(tuple((one, _OFTEN[one.layers]) for one in allowed)) if allowed else None


def _retention(draw: Draw, pins: Pins, block_size: int) -> int | None:
    kind = pins.retention or cast(Retention, draw.weighted((("boundaries", 4), ("multiple", 2), ("dense", 3))))
    if kind == "dense":
        return None
    return 0 if kind == "boundaries" else block_size * draw.integer(2, 4)


def _drafting_slots(method: SpecMethod, num_spec: int) -> int:
    """Tokens of the input budget that some drafters reserve for themselves."""
    return num_spec + 1 if method in ("draft_model", "dflash") else 0
