"""An entry is what a campaign remembers of one judged case: a line of its journal, and all it adds to the counts."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One case. `counters` are added up; `skipped` says why nothing was judged; `reached` are its regimes, bits of a
    hexadecimal number by their place in the subject's list, and `missed` those that were in it but not judged, for the
    reason `why`. `steps` and `seconds` (of processor time) are those of subjects that count them. `signature` and
    `issue` are the key of what was found."""

    index: Annotated[int, Meta(ge=0, le=2**62)]
    steps: Annotated[int, Meta(ge=0)] = 0
    seconds: float = 0.0
    counters: dict[str, Annotated[int, Meta(ge=0)]] = {}
    skipped: str | None = None
    signature: str | None = None
    issue: str | None = None
    reached: Annotated[str, Meta(pattern="^[0-9a-f]{0,256}$")] = ""
    missed: Annotated[str, Meta(pattern="^[0-9a-f]{0,256}$")] = ""
    why: str = ""

    def fits(self, regimes: Sequence[str]) -> bool:
        """Whether it names only these regimes."""
        return all(int(bits or "0", 16) >> len(regimes) == 0 for bits in (self.reached, self.missed))


def bits_of(reached: Iterable[str], names: tuple[str, ...]) -> str:
    """Those of `names` that are in `reached`, as `Entry.reached` has them."""
    places = _places(names)
    return f"{sum(1 << places[name] for name in reached):x}"


def regimes_digest(names: Sequence[str]) -> str:
    """What says that entries with these names of regimes mean the same by their bits."""
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=8)
def _places(names: tuple[str, ...]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


class Tally:
    """The sum of entries. `regimes` are the names of the bits of `Entry.reached`."""

    def __init__(self, regimes: Sequence[str] = ()) -> None:
        self._regimes = regimes
        self.cases = 0
        self.steps = 0
        self.seconds = 0.0
        self.counters: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.missed: dict[str, Counter[str]] = {}
        """How often a regime was in a case that was not judged, by the reason."""
        self.violations = 0
        """Cases in which something was found."""
        self.outcomes: Counter[str] = Counter()
        """How often each signature was found in cases that were not skipped; the empty one where nothing was found."""

    def add(self, entry: Entry) -> None:
        """Count one more case."""
        self.cases += 1
        self.steps += entry.steps
        self.seconds += entry.seconds
        self.counters.update(entry.counters)
        self.violations += entry.signature is not None
        if entry.skipped is not None:
            self.skipped[entry.skipped] += 1
        else:
            self.outcomes[entry.signature or ""] += 1
        for name in self._named(entry.reached):
            self.reached[name] += 1
        for name in self._named(entry.missed):
            self.missed.setdefault(name, Counter())[entry.why] += 1

    def _named(self, text: str) -> Iterator[str]:
        bits = int(text or "0", 16)
        while bits:
            lowest = bits & -bits
            yield self._regimes[lowest.bit_length() - 1]
            bits ^= lowest
