"""A refusal says that something asked for is not available on this machine or in this release."""

from __future__ import annotations

from typing import ClassVar

from harness.exit_status import BAD_INPUT


class Refusal(Exception):
    """Its message is one line that a user can act on; a command that ends with it has this exit status: 2, or 3 where
    something is lost, or has to be fetched first."""

    exit_status: ClassVar[int] = BAD_INPUT


class UnknownTarget(Refusal):
    """A target that does not exist or cannot be loaded."""
