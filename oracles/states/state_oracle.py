"""The state oracle runs step plans on the symbolic device and checks what every state represents, step by step.

Four checks (docs/domain.md, section 8): (a) each row starts from the state of exactly its computed tokens, temporal,
conv and attention; (b) after a step every entry of the prefix cache holds what its hash says; (c) a launch writes no
block twice, never the null block, and nothing outside its row; (d) nothing is read that the same launch writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from typing import NamedTuple, NoReturn

from harness.case import landing
from harness.case.step_plan import MoveRow, PlannedRow, PostprocessInput, StepPlan, Table
from harness.oracles.states.device import NO_WRITER, Device, Writer
from harness.oracles.states.texts import UNDEFINED, Fingerprint, Text
from harness.oracles.states.violation import Violation, ViolationFound


class CacheEntry(NamedTuple):
    """A block registered in the prefix cache for the first `tokens` tokens of `text`, in KV-cache group `group`.

    `wanted` are the fingerprints that it should hold: those of its tokens for an attention block, those of the conv
    window for a Mamba block, of which the last is that of the temporal state.
    """

    group: int
    block: int
    tokens: int
    text: Text
    wanted: list[Fingerprint]


class StateOracle:
    """Judges one sequence.

    `block_size` is that of Mamba groups, `kernel` the convolution's width, `mamba` and `attention` the KV-cache group
    ids of either kind, `attention_sizes` the block sizes of the latter, in tokens. Raises ViolationFound.
    """

    def __init__(
        self,
        device: Device,
        block_size: int,
        kernel: int,
        mamba: tuple[int, ...],
        attention: tuple[int, ...],
        attention_sizes: tuple[int, ...],
    ) -> None:
        self.device = device
        self.block_size = block_size
        self.taps = kernel - 1
        self.mamba = mamba
        self.attention = attention
        self.attention_sizes = dict(zip(attention, attention_sizes, strict=True))
        self.texts: dict[str, Text] = {}
        self.counters: Counter[str] = Counter()
        self.step = 0
        self.moved: list[MoveRow] = []
        """The moves of the last postprocess."""

        self.check_entries = True
        """Whether check (b) is on. If it is off, a poisoned entry shows when a request reads it."""

        self.fresh_rows_start_empty = False
        """A fix: speculative rows of requests without computed tokens start from an empty state."""

        self.after_precopy: Callable[[StepPlan], None] = lambda plan: None
        """Called between the moves of precopy and the forward pass, when memory is as the layers see it."""

    # The parts of a step.

    def forward(self, plan: StepPlan, accept: Callable[[PlannedRow], int]) -> dict[str, tuple[int, list[int]]]:
        """Run copies, precopy and the forward pass.

        `accept` says how many drafts of a row are right. Returns for each request how many tokens the sampler accepts
        (at least 1), and those tokens (none if the row does not sample).
        """
        self.step += 1
        for block in plan.zeroed:
            self.device.zero(block)
        if plan.copies:
            self.device.copy_blocks(plan.copies, Writer(self.step, "scheduler", -1, -1, "block copy"))
            self.counters["block copies"] += len(plan.copies)
        self.move(plan.precopy, "precopy")
        self.after_precopy(plan)
        reads: dict[int, str] = {}
        right = {row.request: min(accept(row), row.drafts) for row in plan.rows}
        nodes = {row.request: self._nodes(row, right[row.request]) for row in plan.rows}
        for row in plan.rows:
            self._write_attention(row, nodes[row.request])
        windows = {row.request: self._read(row, reads) for row in plan.rows}
        written: dict[int, tuple[str, int]] = {}
        for row in plan.rows:
            self._write_states(row, nodes[row.request], windows[row.request], written, reads)
        outcome = {}
        for row in plan.rows:
            kept = right[row.request] + 1
            sampled: list[int] = []
            if row.samples:
                text = self.texts[row.request]
                start = row.computed + row.scheduled - row.drafts
                text.grow(start + kept)
                sampled = text.tokens[start : start + kept]
                if kept > 1:
                    self.counters["rows with drafts accepted"] += 1
            outcome[row.request] = (kept, sampled)
        self.counters["rows"] += len(plan.rows)
        return outcome

    def idle(self, plan: StepPlan) -> None:
        """A step without rows: runners still clear and copy blocks."""
        self.forward(plan, lambda row: 0)

    def postprocess(self, rows: Iterable[PostprocessInput]) -> dict[str, int]:
        """Do what the postprocess kernel is specified to do; returns the accepted counts afterwards."""
        moves = []
        counts = {}
        for row in rows:
            counts[row.request] = row.accepted
            landed = landing(row.computed + row.scheduled - row.drafts, row.accepted, self.block_size)
            if landed is None:
                continue
            if landed.column == row.state_column:
                counts[row.request] = 1
                if landed.bias == 0:
                    continue
            moves.append(MoveRow(row.request, row.slot, row.state_column, landed.column, landed.bias, row.mamba))
        self.move(moves, "postprocess")
        self.moved = moves
        return counts

    def move(self, moves: list[MoveRow], how: str) -> None:
        """Run one launch of a copy kernel."""
        if not moves:
            return
        self.counters[how + " moves"] += len(moves)
        written: dict[int, tuple[str, int]] = {}
        read: dict[int, str] = {}
        for move in moves:
            if move.bias:
                self.counters["moves with a bias"] += 1
            for group, table in zip(self.mamba, move.mamba, strict=True):
                first = min(move.source, move.destination)
                last = max(move.source + move.bias, move.destination)
                if first < 0 or last >= len(table):
                    self._outside(how, move.request, group, first if first < 0 else last, table)
                source, spec, destination = (
                    table[move.source],
                    table[move.source + move.bias],
                    table[move.destination],
                )
                self._claim(written, move.request, group, move.destination, destination, how)
                for block in (source, spec):
                    read[block] = move.request
        for block, (request, column) in written.items():
            reader = read.get(block)
            if reader is not None and reader != request:
                self._fail("read-while-written", how, reader, -1, column, block, f"a write of {request}", "no write")
        device = self.device
        for move in moves:
            for group, table in zip(self.mamba, move.mamba, strict=True):
                writer = Writer(self.step, move.request, group, move.destination, how)
                device.move(
                    table[move.source],
                    table[move.source + move.bias],
                    table[move.destination],
                    move.bias,
                    writer,
                )

    def entry(self, group: int, block: int, tokens: int, text: Text) -> CacheEntry:
        """The entry for the first `tokens` tokens of `text`, which must know at least as many. Entries are checked
        after every step while they exist, so their fingerprints are looked up once."""
        size = self.attention_sizes.get(group)
        first = max(1, tokens - self.taps + 1) if size is None else (tokens - 1) // size * size + 1
        return CacheEntry(group, block, tokens, text, text.prefix[first : tokens + 1])

    def check_cache(self, entries: Collection[CacheEntry]) -> None:
        """Check (b), after a step."""
        if not self.check_entries:
            return
        device, taps, attention = self.device, self.taps, self.attention_sizes
        for entry in entries:
            group, block, _, _, wanted = entry
            if group in attention:
                if device.attention[block][: len(wanted)] != wanted:
                    self._poisoned("attention", entry, device.attention[block][: len(wanted)])
                continue
            if device.temporal[block] != wanted[-1]:
                self._poisoned("temporal", entry, [device.temporal[block]])
            if device.conv[block][taps - len(wanted) : taps] != wanted:
                self._poisoned("conv", entry, device.conv[block][:taps])
        self.counters["cache entries checked"] += len(entries)

    # Parts of the forward pass.

    def _nodes(self, row: PlannedRow, right: int) -> list[Fingerprint]:
        """Fingerprints after each token of a row: the real ones up to the last right draft."""
        text = self.texts[row.request]
        end = row.computed + row.scheduled
        true = end - row.drafts + right
        text.grow(end + 1)
        nodes = text.prefix[row.computed + 1 : true + 1]
        return nodes + text.astray(true, end - true) if end > true else nodes

    def _write_attention(self, row: PlannedRow, nodes: list[Fingerprint]) -> None:
        device = self.device
        for group, table in zip(self.attention, row.attention, strict=True):
            size = self.attention_sizes[group]
            position, taken = row.computed, 0
            while taken < len(nodes):
                column, slot = divmod(position, size)
                if column >= len(table):
                    self._outside("attention", row.request, group, column, table)
                block = table[column]
                if block == 0:
                    self._fail("null-block-written", "attention", row.request, group, column, block, "", "")
                if not device.holds_attention[block]:
                    device.become_attention(block)
                part = nodes[taken : taken + size - slot]
                device.attention[block][slot : slot + len(part)] = part
                device.written(block, Writer(self.step, row.request, group, column, "forward pass"))
                taken += len(part)
                position += len(part)

    def _read(self, row: PlannedRow, reads: dict[int, str]) -> list[list[Fingerprint]]:
        """Check (a): everything a row reads. Returns the conv window that it starts from, by Mamba group."""
        device, computed, taps = self.device, row.computed, self.taps
        prefix = self.texts[row.request].prefix
        if computed == 0:
            if row.speculative and not self.fresh_rows_start_empty:
                self._check_fresh(row)
            return [[UNDEFINED] * taps for _ in self.mamba]
        for group, table in zip(self.attention, row.attention, strict=True):
            size = self.attention_sizes[group]
            for column in range(-(-computed // size)):
                block, start = table[column], column * size
                end = min(start + size, computed)
                if device.attention[block][: end - start] != prefix[start + 1 : end + 1]:
                    self._misread("attention", row, group, column, block, device.attention[block], end)
        offset = row.accepted - 1 if row.speculative else 0
        if offset:
            self.counters["reads at an offset"] += 1
        windows = []
        for group, table in zip(self.mamba, row.mamba, strict=True):
            column = row.state_column
            if column < 0 or column + offset >= len(table):
                self._outside("temporal", row.request, group, column if column < 0 else column + offset, table)
            block = table[column + offset]
            reads[block] = row.request
            if device.temporal[block] != prefix[computed]:
                self._misread("temporal", row, group, column + offset, block, [device.temporal[block]], computed)
            block = table[column]
            reads[block] = row.request
            window = device.conv[block][offset : offset + taps]
            want = prefix[max(1, computed - taps + 1) : computed + 1]
            if window[taps - len(want) :] != want:
                self._misread("conv", row, group, column, block, device.conv[block], computed)
            windows.append(window)
        return windows

    def _check_fresh(self, row: PlannedRow) -> None:
        """A speculative row reads its state unconditionally: at position 0 that must be an empty state. Keys and values
        of a request that had the block before are none, either: layers read whatever bytes lie there."""
        device, column, offset = self.device, row.state_column, row.accepted - 1
        for group, table in zip(self.mamba, row.mamba, strict=True):
            if column < 0 or column + offset >= len(table):
                self._outside("temporal", row.request, group, column if column < 0 else column + offset, table)
            read = {
                "temporal": (column + offset, [device.temporal[table[column + offset]]]),
                "conv": (column, device.conv[table[column]][offset : offset + self.taps]),
            }
            for state, (place, held) in read.items():
                block = table[place]
                if any(node != UNDEFINED for node in held):
                    holds = self.describe(held, block)
                elif keys := device.keys_of(block):
                    holds = f"keys and values up to those of {self.describe(keys[-1:], block)}"
                else:
                    continue
                should = "the empty state of a request of which nothing is computed"
                self._fail("wrong-state-read", state, row.request, group, place, block, holds, should)

    def _write_states(
        self,
        row: PlannedRow,
        nodes: list[Fingerprint],
        windows: list[list[Fingerprint]],
        written: dict[int, tuple[str, int]],
        reads: Mapping[int, str],
    ) -> None:
        device, taps = self.device, self.taps
        for group, table, window in zip(self.mamba, row.mamba, windows, strict=True):
            states = (
                [(row.state_column + j, nodes[j]) for j in range(len(nodes))]
                if row.speculative
                else [(row.state_column, nodes[-1])]
            )
            if states[-1][0] >= len(table) or row.state_column < 0:
                column = row.state_column if row.state_column < 0 else states[-1][0]
                self._outside("temporal", row.request, group, column, table)
            for column, node in states:
                block = table[column]
                self._claim(written, row.request, group, column, block, "forward pass")
                self._check_other_reader(reads, row, group, column, block)
                if device.holds_attention[block]:
                    device.become_mamba(block)
                device.temporal[block] = node
                device.written(block, Writer(self.step, row.request, group, column, "forward pass"))
            block = table[row.state_column]
            conv = device.conv[block]
            if row.speculative:
                fresh = (window[1:] + nodes)[: device.window]
                device.conv[block] = fresh + [UNDEFINED] * (device.window - len(fresh))
            else:
                device.conv[block] = (window + nodes)[-taps:] + conv[taps:]
            if row.checkpoint_offset:
                self._export(row, group, table, window, nodes, written, reads)

    def _export(
        self,
        row: PlannedRow,
        group: int,
        table: list[int],
        window: list[Fingerprint],
        nodes: list[Fingerprint],
        written: dict[int, tuple[str, int]],
        reads: Mapping[int, str],
    ) -> None:
        """Write the state inside a prefill to the column that the layer exports it to."""
        device, column = self.device, row.checkpoint_column
        if not 0 <= column < len(table):
            self._outside("temporal", row.request, group, column, table)
        block = table[column]
        self.counters["checkpoints exported"] += 1
        if block == 0:
            # The layer's kernel masks the null block: nothing is kept of this checkpoint.
            self.counters["checkpoints without a block"] += 1
            return
        self._claim(written, row.request, group, column, block, "checkpoint")
        self._check_other_reader(reads, row, group, column, block)
        if device.holds_attention[block]:
            device.become_mamba(block)
        device.temporal[block] = nodes[row.checkpoint_offset - 1]
        before = window + nodes[: row.checkpoint_offset]
        device.conv[block] = before[-self.taps :] + device.conv[block][self.taps :]
        device.written(block, Writer(self.step, row.request, group, column, "checkpoint"))

    # Checks and evidence.

    def _claim(
        self, written: dict[int, tuple[str, int]], request: str, group: int, column: int, block: int, how: str
    ) -> None:
        """Check (c) for one write."""
        if block == 0:
            self._fail("null-block-written", "temporal", request, group, column, block, "", "")
        owner = written.get(block)
        if owner is not None:
            self._fail(
                "block-written-twice",
                "temporal",
                request,
                group,
                column,
                block,
                f"column {owner[1]} of {owner[0]} already, by the {how}",
                f"column {column} of {request} alone",
            )
        written[block] = (request, column)

    def _check_other_reader(
        self, reads: Mapping[int, str], row: PlannedRow, group: int, column: int, block: int
    ) -> None:
        """Check (d) for one write."""
        reader = reads.get(block)
        if reader is not None and reader != row.request:
            self._fail(
                "read-while-written", "temporal", reader, group, column, block, f"a write of {row.request}", "no write"
            )

    def _outside(self, state: str, request: str, group: int, column: int, table: Table) -> NoReturn:
        text = f"the row has {len(table)} column{'s' * (len(table) != 1)}, and column {column} lies outside"
        self._fail("column-outside-row", state, request, group, column, -1, text, "")

    def _misread(
        self, state: str, row: PlannedRow, group: int, column: int, block: int, holds: list[Fingerprint], tokens: int
    ) -> NoReturn:
        self._fail(
            "wrong-state-read",
            state,
            row.request,
            group,
            column,
            block,
            self.describe(holds, block),
            self.texts[row.request].name(tokens),
        )

    def _poisoned(self, state: str, entry: CacheEntry, holds: list[Fingerprint]) -> NoReturn:
        owner = next((name for name, known in self.texts.items() if known is entry.text), "a request that is gone")
        text = entry.text.name(entry.tokens)
        self._fail(
            "poisoned-cache-entry", state, owner, entry.group, -1, entry.block, self.describe(holds, entry.block), text
        )

    def _fail(
        self, kind: str, state: str, request: str, group: int, column: int, block: int, holds: str, should: str
    ) -> NoReturn:
        writer = self.device.writer[block] if block >= 0 else NO_WRITER
        raise ViolationFound(Violation(kind, state, self.step, request, group, column, block, writer, holds, should))

    def describe(self, holds: list[Fingerprint], block: int) -> str:
        """What a block holds as text: of which text its fingerprints are, and how long; memory that holds none by what
        production did with the block."""
        if self.device.zeroed[block]:
            nothing = "zeros, since the block was cleared for its new owner"
        elif self.device.writer[block].step:
            nothing = "undefined"
        else:
            nothing = "undefined, since nothing was ever written there"
        parts = []
        for fingerprint in holds[-8:]:
            if fingerprint == UNDEFINED:
                parts.append(nothing)
                continue
            for text in self.texts.values():
                if fingerprint in text.prefix:
                    parts.append(text.name(text.prefix.index(fingerprint)))
                    break
            else:
                parts.append("a prefix with rejected drafts")
        runs = [(part, len(list(run))) for part, run in groupby(parts)]
        return ", ".join(part if count == 1 else f"{part} ({count} times)" for part, count in runs)
