"""A text is what a request will have said once it is complete: its prompt, then what the model says, token by token.

The model here is a function of the prefix, so a text is known before any step runs: whoever computes it again, after a
preemption or as another request with the same prompt, says the same. A fingerprint names a prefix: equal prefixes have
equal fingerprints, and it is what a state "holds" (docs/domain.md, section 8).
"""

from __future__ import annotations

import functools

from harness.case.sequence import CONTINUATION, Segment

STOP = 0
"""The token that ends a request. Never part of a text: a request ends before it is computed."""

_MASK = (1 << 62) - 1
_ROOT = 0x2545F4914F6CDD1D & _MASK

Fingerprint = int
UNDEFINED: Fingerprint = 0
"""What memory holds that nobody gave a meaning to."""


def follow(fingerprint: Fingerprint, token: int) -> Fingerprint:
    """The fingerprint of a prefix with one more token."""
    return ((fingerprint ^ (fingerprint >> 29)) * 6364136223846793005 + token * 1442695040888963407 + 1) & _MASK or 1


def next_token(fingerprint: Fingerprint, vocabulary: int) -> int:
    """What the model says after a prefix: a token from 1 to `vocabulary`."""
    return (fingerprint >> 31) % vocabulary + 1


@functools.lru_cache(2**16)  # a few families are most of all prompts
def _of_family(family: int, position: int, vocabulary: int) -> int:
    mixed = ((family + 1) * 0x9E3779B97F4A7C15 + position * 0xBF58476D1CE4E5B9) & _MASK
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _MASK
    return (mixed >> 31) % vocabulary + 1


class Text:
    """`tokens[p]` is the token at position p; `prefix[p]` the fingerprint of the first p tokens."""

    def __init__(self, prompt: tuple[Segment, ...], vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.tokens: list[int] = []
        self.prefix: list[Fingerprint] = [_ROOT]
        fingerprint, end = _ROOT, 0
        for segment in prompt:
            start, end = end, end + segment.length
            for position in range(start, end):
                if segment.family == CONTINUATION:
                    token = next_token(fingerprint, vocabulary)
                else:
                    token = _of_family(segment.family, position, vocabulary)
                fingerprint = follow(fingerprint, token)
                self.tokens.append(token)
                self.prefix.append(fingerprint)
        self.prompt_length = end

    def grow(self, length: int) -> None:
        """Know at least `length` tokens."""
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
