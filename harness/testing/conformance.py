"""Conformance means to meet the requirements that the harness relies on."""

from __future__ import annotations


class NotConforming(AssertionError):
    """An executor or a target does not conform. The message is one line: what it did, and with which case."""
