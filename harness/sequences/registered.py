"""Registered entries are those of an engine's prefix cache: for each a block, and the text that it should hold.

The cache itself knows only hashes. The text of a hash is learned from the requests as their hashes grow.
"""

from __future__ import annotations

from typing import Any

from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.oracles.states.state_oracle import CacheEntry, StateOracle
from harness.oracles.states.texts import Text


class RegisteredEntries:
    """The entries of one engine. `now` is called after every step, so entries, which last for many steps, are built
    once."""

    def __init__(self, engine: Engine, meaning: StateOracle) -> None:
        self._engine, self._meaning = engine, meaning
        self._texts: dict[bytes, tuple[int, Text]] = {}
        self._learned: dict[str, int] = {}
        self._entries: dict[tuple[bytes, int], CacheEntry] = {}

    def learn(self, name: str, request: Any, text: Text) -> None:
        """Remember the texts of the block hashes that a request has so far."""
        known, count = self._learned.get(name, 0), len(request.block_hashes)
        if count > known:
            size = self._engine.hash_block_size
            text.grow(count * size)
            for i in range(known, count):
                self._texts.setdefault(request.block_hashes[i], ((i + 1) * size, text))
            self._learned[name] = count

    def forget(self, name: str) -> None:
        """A request has other tokens from here on: its hashes are learned anew."""
        self._learned.pop(name, None)

    def now(self) -> list[CacheEntry]:
        """The entries registered now."""
        known = self._entries
        return [known.get(registered) or self._make(registered) for registered in self._engine.entries()]

    def _make(self, registered: tuple[bytes, int]) -> CacheEntry:
        key, block = registered
        group, hashed = self._engine.group_and_hash(key)
        entry = self._entries[registered] = self._meaning.entry(group, block, *self._texts[hashed])
        return entry
