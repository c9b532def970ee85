"""State reads are the states from which layers continue, compared in each forward pass with those of the plain run.

Before each pass the metadata of every layer say which block and which accepted draft each row continues from. What lies
there has to be what the same model has after the same tokens, run plainly. The first that differs is named: the tokens
that an engine says show only later that something was wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from harness.end_to_end.inside.continued_rows import Read, continued_rows
from harness.end_to_end.inside.engine import RunningEngine
from harness.text import counted

TOLERANCE = 1e-3
"""Largest difference of a state from the plain run's, as a share of its largest number, that is arithmetic."""

LOOKS_BACK = 40
"""Tokens before the right place among which a wrong state is looked for."""

WINDOW, TEMPORAL = "convolution window", "temporal state"
States = dict[str, tuple[torch.Tensor, torch.Tensor]]
"""By layer: the window and the temporal state."""


class WrongRead(NamedTuple):
    """The first state that differs."""

    step: int
    request: str
    read: Read
    column: int
    kind: str
    computed: int
    difference: str

    @property
    def line(self) -> str:
        """For people."""
        block = self.read.block if self.kind == TEMPORAL else self.read.window_block
        where = f"group {self.read.group}, column {self.column}, block {block}"
        return (
            f"first wrong state: step {self.step}, request {self.request} continues after"
            f" {counted(self.computed, 'token')}: the {self.kind} of {self.read.layer} ({where}) {self.difference}"
        )


class PlainStates:
    """States of the model after some tokens, run plainly."""

    def __init__(self, engine: RunningEngine) -> None:
        self._engine = engine
        self._known: dict[tuple[int, ...], States] = {}

    def after(self, tokens: tuple[int, ...]) -> States:
        """The states of all layers."""
        if tokens not in self._known:
            self._known[tokens] = self._run(tokens)
        return self._known[tokens]

    def _run(self, tokens: tuple[int, ...]) -> States:
        engine = self._engine
        engine.watch_kernels()
        name = f"states {len(self._known)}"
        engine.add(name, list(tokens), 2)
        engine.step()
        batch, layers = engine.runner.input_batch, engine.layers()
        row, found = batch.req_id_to_index[name], {}
        for group, names in mamba_layers(engine):
            block = int(batch.block_table.block_tables[group].block_table.np[row, 0])
            for layer in names:
                window, temporal = (tensor[block].clone() for tensor in layers[layer][:2])
                found[layer] = (window, temporal)
        while engine.scheduler.has_requests():
            engine.step()
        return found


class StateReads:
    """Watches one engine, until a state differs; `plain` is an engine that runs plainly."""

    def __init__(self, engine: RunningEngine, plain: RunningEngine) -> None:
        self._engine, self._plain = engine, PlainStates(plain)
        self._window = engine.facts().window - 1
        self._step = self._compared = 0
        self._unknown: str | None = None
        self.wrong: WrongRead | None = None
        schedule = engine.scheduler.schedule

        def counted(*arguments: Any, **named: Any) -> Any:
            self._step += 1
            return schedule(*arguments, **named)

        engine.scheduler.schedule = counted
        engine.runner.model.register_forward_pre_hook(self._before_pass)

    def lines(self) -> list[str]:
        """What was found."""
        if self._unknown is not None:
            return [f"which state is wrong is not known: {self._unknown}"]
        if self.wrong is None:
            return [
                f"no wrong state: each of {self._compared} states from which layers continue is the plain run's, so it"
                " is what attention reads, or what is made of the states"
            ]
        return [self.wrong.line]

    def _before_pass(self, *_: Any) -> None:
        if self.wrong is not None or self._unknown is not None:
            return
        try:
            reads = [(read, self._text(read.row)) for read in self._reads()]
        except AttributeError as lacks:
            self._unknown = f"the layers' metadata of this release have no {lacks.name}"
            return
        except LookupError as unknown:
            self._unknown = str(unknown)
            return
        for read, tokens in reads:
            self.wrong = self._compare(read, tokens)
            if self.wrong is not None:
                return
        self._engine.watch_kernels()

    def _reads(self) -> Iterator[Read]:
        from vllm.forward_context import get_forward_context

        metadata = get_forward_context().attn_metadata
        for group, names in mamba_layers(self._engine):
            for layer in names:
                yield from continued_rows(layer, group, metadata[layer])

    def _text(self, row: int) -> tuple[int, ...]:
        """The tokens before those that a row runs, as the device has them. An asynchronous host may have placeholders,
        and count otherwise."""
        runner = self._engine.runner
        batch, starts = runner.input_batch, runner.query_start_loc.np
        computed = int(runner.seq_lens[row]) - int(starts[row + 1] - starts[row])
        if not self._engine.options.asynchronous:
            return tuple(int(token) for token in batch.token_ids_cpu[row, :computed])
        name = batch.req_ids[row]
        known = self._engine.device_tokens.of(name) or runner.requests[name].prompt_token_ids
        tokens = tuple(known[:computed])
        if len(tokens) < computed or min(tokens, default=0) < 0:
            raise LookupError(f"the device's tokens of request {name} were not noted")
        return tokens

    def _compare(self, read: Read, tokens: tuple[int, ...]) -> WrongRead | None:
        batch = self._engine.runner.input_batch
        window, temporal = self._engine.layers()[read.layer][:2]
        held = {
            TEMPORAL: temporal[read.block],
            WINDOW: self._shifted(window[read.window_block], read.offset),
        }
        self._compared += 1
        for kind, state in held.items():
            difference = self._difference(state, tokens, read.layer, kind)
            if difference is not None:
                block = read.block if kind == TEMPORAL else read.window_block
                table = batch.block_table.block_tables[read.group].block_table.np[read.row].tolist()
                column = table.index(block) if block in table else -1
                return WrongRead(self._step, batch.req_ids[read.row], read, column, kind, len(tokens), difference)
        return None

    def _difference(self, state: torch.Tensor, tokens: tuple[int, ...], layer: str, kind: str) -> str | None:
        """How a state differs from what it should be after these tokens; None if it does not."""
        if not tokens:
            return "is not zeros, though nothing of the request is computed" if state.any() else None
        share = self._share(state, tokens, layer, kind)
        if share <= TOLERANCE:
            return None
        instead = self._what_it_is(state, tokens, layer, kind)
        off = f"by {share:.2g} of its largest number (up to {TOLERANCE:g} is rounding)"
        return f"differs from the plain run's {off}; {instead}"

    def _share(self, state: torch.Tensor, tokens: tuple[int, ...], layer: str, kind: str) -> float:
        """How far a state is from the plain run's, as a share of that."""
        window, temporal = self._plain.after(tokens)[layer]
        due = temporal if kind == TEMPORAL else self._shifted(window, 0)
        return float((state - due).abs().max() / due.abs().max().clamp(min=1e-6))

    def _shifted(self, window: torch.Tensor, offset: int) -> torch.Tensor:
        """The part of a window behind `offset` accepted drafts; the shorter axis is that of its tokens."""
        axis = 0 if window.shape[0] < window.shape[1] else 1
        return window.narrow(axis, offset, self._window)

    def _what_it_is(self, state: torch.Tensor, tokens: tuple[int, ...], layer: str, kind: str) -> str:
        if not state.any():
            return "it is zeros"
        for length in range(len(tokens) - 1, max(len(tokens) - LOOKS_BACK, 0), -1):
            if self._share(state, tokens[:length], layer, kind) <= TOLERANCE:
                return f"it is the one after {length} of them"
        return f"it is not the one after any of the last {LOOKS_BACK} of them"


def mamba_layers(engine: RunningEngine) -> list[tuple[int, list[str]]]:
    """The KV-cache groups whose layers have states, and those layers."""
    return [
        (number, list(group.layer_names))
        for number, group in enumerate(engine.scheduler.kv_cache_config.kv_cache_groups)
        if hasattr(group.kv_cache_spec, "mamba_type")
    ]
