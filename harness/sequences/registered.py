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
        self._learned: dict[str, tuple[int, bytes]] = {}
        """Of each request, how many hashes are known, and the last of them."""
        self._entries: dict[tuple[bytes, int], CacheEntry] = {}

    def learn(self, name: str, request: Any, text: Text) -> None:
        """Remember the texts of the block hashes that a request has so far. Those of a session may become others: each
        hash depends on the one before it, so then the last one differs."""
        hashes = request.block_hashes
        known, last = self._learned.get(name, (0, b""))
        if known and (len(hashes) < known or hashes[known - 1] != last):
            known = 0
        if len(hashes) > known:
            size = self._engine.hash_block_size
            text.grow(len(hashes) * size)
            for i in range(known, len(hashes)):
                self._texts.setdefault(hashes[i], ((i + 1) * size, text))
            self._learned[name] = len(hashes), hashes[-1]

    def now(self) -> list[CacheEntry]:
        """The entries registered now."""
        known = self._entries
        return [known.get(registered) or self._make(registered) for registered in self._engine.entries()]

    def _make(self, registered: tuple[bytes, int]) -> CacheEntry:
        key, block = registered
        group, hashed = self._engine.group_and_hash(key)
        entry = self._entries[registered] = self._meaning.entry(group, block, *self._texts[hashed])
        return entry
