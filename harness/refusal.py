"""A refusal says that something asked for is not available on this machine or in this release."""

from __future__ import annotations

from typing import ClassVar


class Refusal(Exception):
    """Its message is one line that a user can act on; a command that ends with it has exit status `status`: 2, or 3
    where something has to be fetched or installed first."""

    status: ClassVar[int] = 2


class UnknownTarget(Refusal):
    """A target that does not exist or cannot be loaded."""
