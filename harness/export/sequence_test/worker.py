"""A worker as it should be: what the blocks of the cache hold when a scheduler's outputs are done as they say.

A block's state is named by the tokens that it stands after. No runner code of vLLM is used: where this worker reads a
wrong state, the scheduler or the block manager is at fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.export.sequence_test.engine import Engine, accepted, module

Prefix = tuple[int, ...]
WRONG = -1
"""A draft token that the model does not say."""


class Worker:
    """`states[block]` is the Mamba state in a block, `keys[block][slot]` the keys and values of one token."""

    def __init__(self, engine: Engine, texts: dict[str, list[int]], known: dict[str, int]) -> None:
        self.engine, self.size, self.texts, self.known = engine, engine.settings.block_size, texts, known
        self.states: dict[int, Prefix] = {}
        self.keys: dict[int, dict[int, Prefix]] = {}
        self.tables: dict[str, list[list[int]]] = {}
        self.computed: dict[str, int] = {}
        self.column: dict[str, int] = {}
        self.accepted: dict[str, int] = {}
        self.drafting: set[str] = set()
        """Requests of which the device has drafts for the next step."""

    def step(self, output: Any, right_of: Callable[[str, int, int], int]) -> dict[str, list[int]]:
        """Do one step; `right_of` says how many drafts are right, from the name of a request, the first draft's
        position and their number. Returns the tokens that each row samples."""
        self._update(output)
        rows = output.num_scheduled_tokens
        drafts = {name: len(output.scheduled_spec_decode_tokens.get(name, ())) for name in rows}
        for name, tokens in rows.items():
            assert tokens > 0, f"the scheduler gives {name} {tokens} tokens"
            assert tokens > drafts[name], f"the scheduler gives {name} {tokens} tokens, {drafts[name]} of them drafts"
        self._move_before(rows)
        right, after = {}, {}
        for name, tokens in rows.items():
            start = self.computed[name] + tokens - drafts[name]
            right[name] = min(right_of(name, start, drafts[name]), drafts[name])
            text = tuple(self.texts[name])
            whole = text[: start + right[name]] + (WRONG,) * (drafts[name] - right[name])
            after[name] = [whole[: self.computed[name] + i + 1] for i in range(tokens)]
        for name in rows:
            self._write_keys(name, after[name])
        for name in rows:
            self._check_start(name)
        written: dict[int, str] = {}
        for name, tokens in rows.items():
            speculative = tokens == drafts[name] + 1 > 1
            self._write_states(name, after[name], speculative, written)
        return {name: self._sample(name, tokens, drafts[name], right[name]) for name, tokens in rows.items()}

    def _update(self, output: Any) -> None:
        for name in {*output.finished_req_ids, *(getattr(output, "preempted_req_ids", None) or ())}:
            self.drafting.discard(name)
        for new in output.scheduled_new_reqs:
            self._start(new.req_id, new.block_ids, new.num_computed_tokens)
            self.known[new.req_id] = len(getattr(new, "prefill_token_ids", None) or new.prompt_token_ids)
        cached = output.scheduled_cached_reqs
        counts = zip(cached.req_ids, cached.num_computed_tokens, cached.new_block_ids, strict=True)
        for name, computed, blocks in counts:
            if name in cached.resumed_req_ids:
                self._start(name, blocks, computed)
                self.known[name] = len(cached.all_token_ids[name])  # outputs that were on their way are dropped
            elif blocks is not None:
                for table, fresh in zip(self.tables[name], blocks, strict=True):
                    table.extend(fresh)
        for block in getattr(output, "new_block_ids_to_zero", None) or ():
            self._forget(block)
        copies = [(one.src_block_id, one.dst_block_id) for one in getattr(output, "kv_cache_block_copies", None) or ()]
        held = [(self.states.get(source), dict(self.keys.get(source, {}))) for source, _ in copies]
        for (_, block), (state, keys) in zip(copies, held, strict=True):
            self._forget(block)
            self.keys[block] = keys
            if state is not None:
                self.states[block] = state

    def _start(self, name: str, blocks: Any, computed: int) -> None:
        self.tables[name] = [list(group) for group in blocks]
        self.computed[name], self.accepted[name] = computed, 1
        self.column[name] = (computed - 1) // self.size
        self.drafting.discard(name)

    def _forget(self, block: int) -> None:
        self.states.pop(block, None)
        self.keys.pop(block, None)

    def _move_before(self, rows: dict[str, int]) -> None:
        """Move running states to the columns that the step works in."""
        moves = []
        for name, tokens in rows.items():
            source, column = self.column[name], (self.computed[name] + tokens - 1) // self.size
            if source not in (-1, column):
                moves.append((name, source + self.accepted[name] - 1, column))
                self.accepted[name] = 1
            self.column[name] = column
        self._move(moves)

    def _move(self, moves: list[tuple[str, int, int]]) -> None:
        read = [(name, self._block(name, group, source)) for name, source, _ in moves for group in self.engine.mamba]
        held = [self.states.get(block) for _, block in read]
        targets = [self._block(name, group, column) for name, _, column in moves for group in self.engine.mamba]
        for block, state in zip(targets, held, strict=True):
            assert block != 0, "the null block is written"
            self._forget(block)
            if state is not None:
                self.states[block] = state

    def _block(self, name: str, group: int, column: int) -> int:
        table = self.tables[name][group]
        assert 0 <= column < len(table), f"{name} has no column {column} in group {group}: its row has {len(table)}"
        return table[column]

    def _block_size(self, group: int) -> int:
        return int(self.engine.groups.kv_cache_groups[group].kv_cache_spec.block_size)

    def _write_keys(self, name: str, after: list[Prefix]) -> None:
        for group in self.engine.attention:
            size = self._block_size(group)
            for prefix in after:
                column, slot = divmod(len(prefix) - 1, size)
                block = self._block(name, group, column)
                assert block != 0, f"{name} writes keys of position {len(prefix) - 1} into the null block"
                self.states.pop(block, None)
                self.keys.setdefault(block, {})[slot] = prefix

    def _check_start(self, name: str) -> None:
        """A row starts from what its computed tokens left."""
        computed, text = self.computed[name], tuple(self.texts[name])
        for group in self.engine.attention:
            size = self._block_size(group)
            for position in range(computed):
                column, slot = divmod(position, size)
                block = self._block(name, group, column)
                found = self.keys.get(block, {}).get(slot)
                assert found == text[: position + 1], (
                    f"{name} has {computed} tokens computed; block {block} (column {column} of group {group}) has "
                    f"{in_words(found)} at position {position}"
                )
        if computed == 0:
            return
        for group in self.engine.mamba:
            column = self.column[name] + self.accepted[name] - 1
            block = self._block(name, group, column)
            assert self.states.get(block) == text[:computed], (
                f"{name} has {computed} tokens computed and starts from block {block} (column {column} of group "
                f"{group}), which has {in_words(self.states.get(block))}"
            )

    def _write_states(self, name: str, after: list[Prefix], speculative: bool, written: dict[int, str]) -> None:
        first = self.column[name]
        states = [(first + i, prefix) for i, prefix in enumerate(after)] if speculative else [(first, after[-1])]
        if not speculative:
            states += self._checkpoints(name, after)
        for group in self.engine.mamba:
            for number, (column, prefix) in enumerate(states):
                block = self._block(name, group, column)
                if block == 0 and number and not speculative:
                    continue  # a layer keeps nothing of a checkpoint that has no block
                assert block != 0, f"{name} writes column {column} of group {group}, which is the null block"
                assert block not in written, (
                    f"column {column} of {name} is block {block}, which this step writes as {written.get(block)} as "
                    "well"
                )
                written[block] = f"column {column} of {name}"
                self.keys.pop(block, None)
                self.states[block] = prefix

    def _checkpoints(self, name: str, after: list[Prefix]) -> list[tuple[int, Prefix]]:
        """The states that layers export from inside a prefill, by the release's own rule."""
        engine, alignment = self.engine, self.engine.settings.checkpoint_alignment
        managers = engine.scheduler.kv_cache_manager.coordinator.single_type_managers
        if alignment is None or (
            EXPORTS_NEED_BLOCKS and name not in getattr(managers[engine.mamba[0]], "_checkpoints", {name: 0})
        ):
            return []
        compute = module("model_executor.layers.mamba.checkpoint").compute_mamba_prefill_checkpoints
        offered = {
            "hash_block_size": engine.hash_block_size,
            "mamba_block_size": self.size,
            "checkpoint_alignment": alignment,
            "drop_eagle_block": engine.drops_last_block() and not engine.lookahead,
            "cache_hit_alignment_tokens": engine.hit_alignment,
            "num_hash_lookahead_tokens": engine.lookahead,
        }
        offsets, columns = compute([len(after[-1])], [len(after)], **accepted(compute, offered))
        return [(columns[0], after[offsets[0] - 1])] if offsets[0] else []

    def _sample(self, name: str, tokens: int, drafts: int, right: int) -> list[int]:
        """What the row samples; then states that belong to a block boundary move there."""
        start = self.computed[name] + tokens - drafts  # tokens up to the first that is always kept
        samples = start >= self.known[name]
        kept = right + 1 if samples else 1
        self.computed[name] = start + (kept - 1 if samples else drafts)
        self.accepted[name] = kept
        aligned = (start + kept - 1) // self.size * self.size
        if aligned >= start:
            column, bias = aligned // self.size - 1, aligned - start
            if column == self.column[name]:
                self.accepted[name] = 1
            if (column, bias) != (self.column[name], 0):
                self._move([(name, self.column[name] + bias, column)])
        if not samples:
            self.drafting.discard(name)
            return []
        self.drafting.add(name)
        self.known[name] = start + kept
        return self.texts[name][start : start + kept]

    def check_cache(self, prefixes: dict[bytes, Prefix]) -> None:
        """Registered blocks hold what their hashes say."""
        for group, key, block in self.engine.entries():
            prefix = prefixes[key]
            if group in self.engine.mamba:
                assert self.states.get(block) == prefix, (
                    f"block {block} is in the prefix cache of group {group} for the state after {len(prefix)} tokens, "
                    f"and has {in_words(self.states.get(block))}"
                )
                continue
            size = self._block_size(group)
            for position in range((len(prefix) - 1) // size * size, len(prefix)):
                found = self.keys.get(block, {}).get(position % size)
                assert found == prefix[: position + 1], (
                    f"block {block} is in the prefix cache of group {group} for {len(prefix)} tokens, and has "
                    f"{in_words(found)} at position {position}"
                )


EXPORTS_NEED_BLOCKS = False
"""Whether layers export a checkpoint only if the block manager keeps a block for it. In known releases they do not ask.
"""


def in_words(prefix: Prefix | None) -> str:
    if prefix is None:
        return "nothing"
    wrong = prefix.count(WRONG)
    drafts = f", {wrong} of them drafts that were rejected" if wrong else ""
    return f"what comes after {len(prefix)} tokens{drafts} ({', '.join(map(str, prefix[:6]))}, ...)"
