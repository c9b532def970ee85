"""A refusal is an answer that a user can act on: what was asked for cannot be had here (exit status 2)."""


class Refusal(Exception):
    """What was asked for cannot be had, on this machine or in this release. Its message is one line."""
