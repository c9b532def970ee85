"""A text is the complete token sequence of a request: its prompt, then the model's output.

The model here is a function of the prefix, so a text is known before any step runs: computing it again, after a
preemption or in another request with the same prompt, gives the same tokens. A fingerprint names a prefix: equal
prefixes have equal fingerprints, and a state "holds" a fingerprint (docs/domain.md, section 8).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from harness.case.sequence import CONTINUATION, Segment

STOP = 0
"""The token that ends a request. It is never part of a text: a request ends before it is computed."""

_MASK = (1 << 62) - 1
_ROOT = 0x2545F4914F6CDD1D & _MASK

Fingerprint = int
UNDEFINED: Fingerprint = 0
"""The fingerprint of uninitialised memory."""


def follow(fingerprint: Fingerprint, token: int) -> Fingerprint:
    """The fingerprint of a prefix with one more token."""
    return ((fingerprint ^ (fingerprint >> 29)) * 6364136223846793005 + token * 1442695040888963407 + 1) & _MASK or 1


def next_token(fingerprint: Fingerprint, vocabulary: int) -> int:
    """The model's output after a prefix: a token from 1 to `vocabulary`."""
    return (fingerprint >> 31) % vocabulary + 1


@functools.lru_cache(2**16)  # a few families make up most prompts
def token_of_family(family: int, position: int, vocabulary: int) -> int:
    """The token of an endless text: from 1 to `vocabulary`."""
    mixed = ((family + 1) * 0x9E3779B97F4A7C15 + position * 0xBF58476D1CE4E5B9) & _MASK
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _MASK
    return (mixed >> 31) % vocabulary + 1


class Text:
    """`tokens[p]` is the token at position p; `prefix[p]` the fingerprint of the first p tokens."""

    def __init__(self, prompt: tuple[Segment, ...], vocabulary: int, shifts: Sequence[int] = ()) -> None:
        """`shifts` says for each segment how far before its place its text begins; none: all begin at position 0."""
        self.vocabulary = vocabulary
        self._prompt = prompt
        self.tokens: list[int] = []
        self.prefix: list[Fingerprint] = [_ROOT]
        fingerprint, end = _ROOT, 0
        for i, segment in enumerate(prompt):
            start, end = end, end + segment.length
            shift = shifts[i] if shifts else 0
            for position in range(start, end):
                if segment.family == CONTINUATION:
                    token = next_token(fingerprint, vocabulary)
                else:
                    token = token_of_family(segment.family, position - shift, vocabulary)
                fingerprint = follow(fingerprint, token)
                self.tokens.append(token)
                self.prefix.append(fingerprint)
        self.prompt_length = end

    def name(self, length: int) -> str:
        """The first `length` tokens in words, without a request, as requests may share them: `text 0, 2 tokens`;
        `8 of text 0, then 4 as the model continues`."""
        parts: list[tuple[int, int]] = []
        left = length
        for family, size in [*((one.family, one.length) for one in self._prompt), (CONTINUATION, length)]:
            taken = min(left, size)
            left -= taken
            if taken and parts and parts[-1][0] == family:
                parts[-1] = (family, parts[-1][1] + taken)
            elif taken:
                parts.append((family, taken))
        if len(parts) == 1 and parts[0][0] != CONTINUATION:
            return f"text {parts[0][0]}, {length} token{'s' * (length != 1)}"
        texts = ["as the model continues" if family == CONTINUATION else f"of text {family}" for family, _ in parts]
        return ", then ".join(f"{size} {text}" for text, (_, size) in zip(texts, parts, strict=True)) or "no token"

    def grow(self, length: int) -> None:
        """Compute the text up to at least `length` tokens."""
        tokens, prefix = self.tokens, self.prefix
        while len(tokens) < length:
            token = next_token(prefix[-1], self.vocabulary)
            tokens.append(token)
            prefix.append(follow(prefix[-1], token))

    def astray(self, length: int, count: int) -> list[Fingerprint]:
        """Fingerprints after each of `count` wrong tokens that follow the first `length`."""
        self.grow(length + count + 1)
        found = []
        fingerprint = self.prefix[length]
        for i in range(count):
            fingerprint = follow(fingerprint, self.vocabulary + 1 + i)
            found.append(fingerprint)
        return found
