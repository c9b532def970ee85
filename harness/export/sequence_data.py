"""A sequence as the data of a test: settings, and events with every token written out."""

from __future__ import annotations

from typing import Any

from harness.case.sequence import Abort, Add, Finish, Pause, Reset, Resume, SequenceCase, Step
from harness.export.sequence_test import sequence as script
from harness.oracles.states.texts import Text

NOT_SETTINGS = ("layers", "kernel", "vocabulary")
"""Fields of a configuration that a scheduler does not have."""


AFTER_END = 64
"""Tokens of a text after the end of its request, where drafts and hashes may reach."""


def script_settings(case: SequenceCase) -> script.Settings:
    config = case.config
    names = [name for name in config.__struct_fields__ if name not in NOT_SETTINGS]
    return script.Settings(**{name: getattr(config, name) for name in names})


def script_events(case: SequenceCase) -> list[script.Event]:
    """The events, in order; a request's text goes as far as it may get, with drafts and hashes after its end."""
    return [_event(case, event) for event in case.events]


def _event(case: SequenceCase, event: Any) -> script.Event:
    if isinstance(event, Add):
        text = Text(event.prompt, case.config.vocabulary)
        text.grow(text.prompt_length + event.outputs + AFTER_END)
        return script.Add(name(event.request), text.tokens, text.prompt_length, event.outputs, event.priority)
    if isinstance(event, Abort | Finish):
        kind = script.Abort if isinstance(event, Abort) else script.Finish
        return kind(name(event.request))
    if isinstance(event, Reset):
        return script.Reset(event.running)
    if isinstance(event, Pause):
        return script.Pause(event.mode, event.clear_cache, event.level)
    if isinstance(event, Resume):
        return script.Resume()
    assert isinstance(event, Step)
    return script.Steps(event.repeat, event.drafts, event.right, event.early)


def name(request: int) -> str:
    """What a request is called."""
    return f"request {request}"
