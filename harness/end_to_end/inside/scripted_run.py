"""A scripted run drives an engine with the events of a sequence, and notes what it says.

The loop is the engine core's own. A sequence's events are what users of an engine do, so each is one call of the core:
adding and aborting requests, resetting the prefix cache, pausing, stepping. Texts are those of the symbolic device
with another spelling of their tokens, so that the same prompts share the same prefixes; where a prompt continues as the
model would, the plain run says how.
"""

from __future__ import annotations

import traceback
from collections import Counter
from typing import Any

from harness.case.sequence import (
    CONTINUATION,
    Abort,
    Add,
    Finish,
    Pause,
    Reset,
    Resume,
    SequenceCase,
    SequenceConfig,
    Step,
)
from harness.end_to_end.inside.engine import RunningEngine
from harness.end_to_end.inside.plain_run import DueTokens, PlainRun
from harness.end_to_end.inside.scripted_core import pause, settle
from harness.end_to_end.inside.scripted_drafter import ScriptedDrafts
from harness.end_to_end.inside.tiny_model import STOP
from harness.end_to_end.messages import RequestTokens, SequenceAnswer
from harness.end_to_end.spelling import FIRST_TOKEN, VOCABULARY, spelled
from harness.oracles.states.texts import token_of_family


class ScriptedRun:
    """One sequence on one engine."""

    def __init__(self, case: SequenceCase, engine: RunningEngine, plain: PlainRun) -> None:
        self._case, self._engine, self._plain = case, engine, plain
        self._due: dict[str, DueTokens] = {}
        self._tokens: dict[str, RequestTokens] = {}
        self._numbers: dict[str, int] = {}
        self._scheduled: list[list[tuple[int, int, int]]] = []
        self._counters: Counter[str] = Counter()
        self._fault_step = 0
        self._step = Step()
        engine.drafts = ScriptedDrafts(self._due, self._drafts_now, _another_token)
        self._watch_scheduler()

    def run(self) -> SequenceAnswer:
        """Run all events. An exception of the release ends the run, and is part of the answer."""
        answer = SequenceAnswer()
        try:
            for event in self._case.events:
                self._do(event)
        except Exception as error:
            if not _is_of_release(error):
                raise
            answer.raised = _told(error)
            answer.raised_type = type(error).__name__
            answer.raised_in = traceback.extract_tb(error.__traceback__)[-1].name
        for name, tokens in self._tokens.items():
            plain = self._due[name].after_prompt(len(tokens.said))
            tokens.due, tokens.margins = plain.tokens, plain.margins
        answer.requests = list(self._tokens.values())
        answer.counters = dict(self._counters)
        answer.fault_step = self._fault_step
        answer.scheduled = self._scheduled
        answer.steps = len(self._scheduled)
        return answer

    def _do(self, event: Any) -> None:
        core = self._engine.core
        if isinstance(event, Step):
            self._step = event
            for _ in range(event.repeat):
                self._one_step()
                settle(core)
            return
        if isinstance(event, Add):
            self._add(event)
        elif isinstance(event, Abort):
            if f"{event.request}" in self._tokens:
                core.abort_requests([f"{event.request}"])
        elif isinstance(event, Finish):
            self._engine.stops.add(f"{event.request}")
        elif isinstance(event, Reset):
            core.reset_prefix_cache(event.running)
        elif isinstance(event, Pause):
            pause(core, event.mode, event.clears)
        elif isinstance(event, Resume):
            core.resume_scheduler()
        settle(core)

    def _add(self, event: Add) -> None:
        name, config = f"{event.request}", self._case.config
        prompt: list[int] = []
        for segment in event.prompt:
            if segment.family == CONTINUATION:
                prompt += self._plain.after(prompt, segment.length).tokens
            else:
                start = len(prompt)
                prompt += [
                    spelled(token_of_family(segment.family, position, config.vocabulary))
                    for position in range(start, start + segment.length)
                ]
        self._due[name] = DueTokens(self._plain, prompt, due_outputs(config, len(prompt), event.outputs))
        self._numbers[name] = event.request
        self._tokens[name] = RequestTokens(
            request=event.request, prompt=len(prompt), prompt_tokens=prompt, said=[], due=[], margins=[]
        )
        self._counters["requests"] += 1
        self._engine.add(name, prompt, event.outputs, priority=event.priority)

    def _one_step(self) -> None:
        if not self._engine.has_work:
            return
        self._engine.watch_kernels()
        if self._step.early:
            self._engine.land()
        for output in self._engine.step():
            tokens = self._tokens[output.request_id]
            new = [token for token in output.new_token_ids if token != STOP]
            tokens.said += new
            tokens.steps += [len(self._scheduled)] * len(new)
            self._counters["tokens"] += len(new)
        if not self._fault_step and self._engine.kernel_faults():
            self._fault_step = len(self._scheduled)

    def _drafts_now(self, request: str) -> tuple[int, int]:
        config, number = self._case.config, self._numbers[request]
        count = config.num_spec
        if config.spec_method == "ngram":
            count = _of(self._step.drafts, number, count)
        return count, min(_of(self._step.right, number, config.num_spec), count)

    def _watch_scheduler(self) -> None:
        """Note what each step schedules."""
        scheduler = self._engine.scheduler
        schedule = scheduler.schedule

        def watched(*args: Any, **kwargs: Any) -> Any:
            output = schedule(*args, **kwargs)
            drafts = output.scheduled_spec_decode_tokens
            self._counters["drafts scheduled"] += sum(map(len, drafts.values()))
            self._counters["rows"] += len(output.num_scheduled_tokens)
            self._counters["preemptions"] += len(getattr(output, "preempted_req_ids", None) or ())
            hits = [new for new in output.scheduled_new_reqs if new.num_computed_tokens]
            self._counters["admissions with a hit"] += len(hits)
            self._scheduled.append(
                [
                    (self._numbers.get(name, -1), count, len(drafts.get(name, ())))
                    for name, count in output.num_scheduled_tokens.items()
                ]
            )
            return output

        scheduler.schedule = watched


def due_outputs(config: SequenceConfig, prompt: int, outputs: int) -> int:
    """Maximum number of tokens behind a prompt of `prompt` tokens that are drafts of a request of `outputs` tokens.

    A step may say a token and all drafts more than asked for. In an asynchronous engine the next one is in flight by
    then, and what it accepts stays behind in its row. At the length limit the runner drafts no token further.
    """
    steps = 2 if config.asynchronous else 1
    most = outputs + steps * (config.num_spec + 1)
    return max(min(most, config.length_limit + 1 - prompt), outputs)


def _another_token(token: int) -> int:
    """A token that is not `token`."""
    return FIRST_TOKEN + (token - FIRST_TOKEN + 101) % (VOCABULARY - FIRST_TOKEN)


def _of(values: tuple[int, ...], number: int, most: int) -> int:
    return min(values[number % len(values)], most) if values else most


def _is_of_release(error: BaseException) -> bool:
    """Whether code of the release raised it, or something that it called."""
    frames = [frame.filename.replace("\\", "/") for frame in traceback.extract_tb(error.__traceback__)]
    last = [file for file in frames if "/vllm/" in file or "/harness/" in file]
    return bool(last) and "/vllm/" in last[-1] and "/harness/" not in last[-1]


def _told(error: BaseException) -> str:
    """An exception and its place, without paths of this machine."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file = frame.filename.replace("\\", "/").rpartition("site-packages/")[2].rpartition("/vllm/")[2]
    return f"{type(error).__name__}: {error} (vllm/{file}, {frame.name})"[:400]
