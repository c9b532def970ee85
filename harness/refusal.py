"""A refusal says that something asked for is not available on this machine or in this release."""

from __future__ import annotations


class Refusal(Exception):
    """Its message is one line that a user can act on; a command that ends with it has exit status 2."""


class UnknownTarget(Refusal):
    """A target that does not exist or cannot be loaded."""
