"""Conformance is keeping to what the harness relies on."""

from __future__ import annotations


class NotConforming(AssertionError):
    """An executor or a target does not keep to it. The message is one line: what it did, and with which case."""
