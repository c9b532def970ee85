"""The loop of an engine core: schedule, run, deliver; if asynchronous, schedule before the last step is delivered."""

from __future__ import annotations

import inspect
from collections import deque
from typing import Any

from harness.export.sequence_test.engine import Engine, make, module
from harness.export.sequence_test.pausing import make_core, pause, resume, settle
from harness.export.sequence_test.sequence import (
    STOP,
    Abort,
    Add,
    Event,
    Finish,
    Pause,
    Reset,
    Resume,
    Settings,
    Steps,
)
from harness.export.sequence_test.worker import Prefix, Worker

MOST_EMPTY = 8
"""Steps in a row without any work, though requests wait, from which an engine stands still."""


class Run:
    """One engine, and everything that happens to it. Any wrong state is an AssertionError."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.engine = settings, Engine(settings)
        self.scheduler = self.engine.scheduler
        self.texts: dict[str, list[int]] = {}
        self.known: dict[str, int] = {}
        self.requests: dict[str, Any] = {}
        self.worker = Worker(self.engine, self.texts, self.known)
        self.in_flight: deque[Any] = deque()
        self.core = make_core(self.engine, self.in_flight, self._discard)
        self.prefixes: dict[bytes, Prefix] = {}
        self.stops: set[str] = set()
        self.right: dict[str, int] = {}
        self.empty = 0
        source = inspect.getsource(module("v1.engine.core").EngineCore.step_with_batch_queue)
        self.delivers_early = settings.asynchronous and ".done()" in source

    def do(self, event: Event) -> None:
        if isinstance(event, Steps):
            for _ in range(event.repeat):
                self._step(event)
                settle(self.core)
        elif isinstance(event, Add):
            self.texts[event.name], self.known[event.name] = event.text, event.prompt
            self.requests[event.name] = self.engine.add(event, float(len(self.texts)))
            self._learn(event.name)
        elif isinstance(event, Abort):
            if event.name in self.scheduler.requests:
                aborted = module("v1.request").RequestStatus.FINISHED_ABORTED
                self.scheduler.finish_requests(event.name, aborted)
        elif isinstance(event, Finish):
            self.stops.add(event.name)
        elif isinstance(event, Reset):
            offered = {"reset_running_requests": True} if event.running else {}
            make(self.scheduler.reset_prefix_cache, **offered)
        elif isinstance(event, Pause):
            pause(self.core, event)
        elif isinstance(event, Resume):
            resume(self.core)
        settle(self.core)

    def _discard(self) -> None:
        self.worker.states.clear()
        self.worker.keys.clear()

    def _learn(self, name: str) -> None:
        """The tokens that the hashes of a request are of."""
        for number, key in enumerate(self.requests[name].block_hashes):
            tokens = (number + 1) * self.engine.hash_block_size
            self.prefixes.setdefault(key, tuple(self.texts[name][:tokens]))

    def _step(self, event: Steps) -> None:
        if not self.settings.asynchronous:
            if self.scheduler.has_requests():
                self._execute(event)
                self._deliver()
                self._hand_over_drafts(event)
            return
        while event.early and self.delivers_early and self.in_flight:
            self._deliver()
        if self.scheduler.has_requests():
            ran = self._execute(event)
            if len(self.in_flight) < 2 and (ran or self.scheduler.has_requests()):
                return
        if self.in_flight:
            self._deliver()

    def _execute(self, event: Steps) -> bool:
        output = self.scheduler.schedule()
        ran = bool(output.total_num_scheduled_tokens)
        self.scheduled = output.scheduled_spec_decode_tokens
        sampled = self.worker.step(output, self._right_drafts)
        self.stepped = set(output.num_scheduled_tokens)
        for name in self.stops & sampled.keys():
            if sampled[name]:
                self.stops.discard(name)
                sampled[name] = [*sampled[name][:-1], STOP]
        ends = [self.worker.computed[name] for name in sampled]
        fits = (
            self.settings.runner == "V2" or max(ends, default=0) + self.settings.num_spec <= self.settings.length_limit
        )
        for name, tokens in sampled.items():
            if tokens and self.settings.num_spec:
                self.right[name] = _of(event.right, name, self.settings.num_spec) if fits else 0
            else:
                self.right.pop(name, None)
        self.worker.check_cache(self.prefixes)
        waits = bool(self.scheduler.requests) and not self.core.is_scheduler_paused()
        idle = not ran and waits and not any(frame[1].req_ids for frame in self.in_flight)
        self.empty = self.empty + 1 if idle else self.empty if not ran and waits else 0
        assert self.empty < MOST_EMPTY, f"{', '.join(self.scheduler.requests)} wait, and {self.empty} steps ran nothing"
        made = module("v1.outputs").ModelRunnerOutput
        names = list(sampled)
        result = make(
            made,
            req_ids=names,
            req_id_to_index={name: number for number, name in enumerate(names)},
            sampled_token_ids=[sampled[name] for name in names],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )
        self.in_flight.append((output, result))
        return ran

    def _deliver(self) -> None:
        output, result = self.in_flight.popleft()
        self.scheduler.update_from_output(output, result)
        for name in result.req_ids:
            if name not in self.requests:
                continue
            self._learn(name)
            if name not in self.scheduler.requests:
                del self.requests[name]
                continue
            tokens = list(self.requests[name].all_token_ids)
            assert tokens == self.texts[name][: len(tokens)], (
                f"{name} has the tokens {tokens}, which the model did not say"
            )

    def _right_drafts(self, name: str, start: int, drafts: int) -> int:
        if not self.settings.asynchronous:
            said = self.texts[name][start : start + drafts]
            tokens = self.scheduled.get(name, ())
            return next((n for n in range(drafts) if tokens[n] != said[n]), drafts)
        return self.right.get(name, 0) if name in self.worker.drafting else 0

    def _hand_over_drafts(self, event: Steps) -> None:
        """Give a synchronous scheduler the drafts of its next step."""
        names, drafts = [], []
        for name, right in self.right.items():
            request = self.scheduler.requests.get(name)
            if request is None or name not in self.stepped:
                continue
            start, count = len(request.all_token_ids), self.settings.num_spec
            if self.settings.spec_method == "ngram":
                count = _of(event.drafts, name, count)
            true = self.texts[name][start : start + min(right, count)]
            names.append(name)
            drafts.append(true + [WRONG_TOKEN] * (count - len(true)))
        if names:
            made = module("v1.outputs").DraftTokenIds(req_ids=names, draft_token_ids=drafts)
            self.scheduler.update_draft_token_ids(made)


WRONG_TOKEN = 1000
"""No text has it."""


def _of(values: tuple[int, ...], name: str, most: int) -> int:
    number = int(name.rpartition(" ")[2])
    return min(values[number % len(values)], most) if values else most
