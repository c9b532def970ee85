"""The spelling of a text is which tokens of the model represent the few tokens of a sequence's texts."""

from __future__ import annotations

VOCABULARY = 512
"""Tokens of the model."""

FIRST_TOKEN = 3
"""Lower ones have meanings: padding, start, end. The model never says them."""

SPREAD = 7
"""Tokens of texts lie so far apart in the model's vocabulary, so that texts of few tokens use all of it."""


def spelled(token: int) -> int:
    """The model's token for a token of a text."""
    return FIRST_TOKEN + SPREAD * token % (VOCABULARY - FIRST_TOKEN)
