"""A run is one sequence case on one engine: events in, a verdict out.

The loop is that of an engine core. Synchronous: schedule, execute, deliver, pass on drafts. Asynchronous: a step is
scheduled before the outputs of the previous one are delivered. The device is the state oracle; the model is a function
of the prefix, and a draft is right exactly if it equals the value of that function.
"""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from harness.case import Case
from harness.case.sequence import Abort, Add, Finish, Input, Pause, Reset, Resume, SequenceCase, Step
from harness.case.step_plan import PlannedRow
from harness.issues.registry import applicable
from harness.kernels.targets.vllm.scheduling.engine import Engine, Frame, ReleaseLacks
from harness.kernels.targets.vllm.scheduling.loading import module
from harness.kernels.targets.vllm.scheduling.runner_model import Outcome, StepTiming
from harness.kernels.targets.vllm.scheduling.runner_pair import HostCodeDiffers
from harness.oracles.states.device import NO_WRITER, Device
from harness.oracles.states.history import History
from harness.oracles.states.progress import Progress, Situation
from harness.oracles.states.session import Session, chunk_tokens
from harness.oracles.states.state_oracle import StateOracle
from harness.oracles.states.texts import STOP, Text
from harness.oracles.states.violation import EXCEPTION, Violation, ViolationFound
from harness.refusal import UnknownTarget
from harness.sequences.byte_device import ByteDevice
from harness.sequences.controls import Controls
from harness.sequences.counters import kept_states
from harness.sequences.decisions import decisions_of
from harness.sequences.kernel_cases import KernelCaseWriter
from harness.sequences.kernels import Kernels
from harness.sequences.lost import lost_fixes
from harness.sequences.registered import RegisteredEntries
from harness.sequences.result import RunResult, not_run
from harness.sequences.runner_models import make_runner_model, own_rules, release_rules
from harness.sequences.verdicts import violation_of
from harness.text import one_line

DRAFTERS_OF_ONE_LENGTH = ("mtp", "eagle", "draft_model", "dflash")


class SequenceRun:
    """Runs once. With `kernels`, the runner's output also runs through them, on bytes; `keep` gets it as cases. With
    `host`, the release's host code runs next to our model of it, if it can be driven.

    Raises ReleaseLacks if the release, or the kernels' target, lacks what the configuration asks for.
    """

    def __init__(
        self,
        case: SequenceCase,
        controls: Controls | None = None,
        kernels: Kernels | None = None,
        keep: Callable[[Case], None] | None = None,
        host: bool = True,
    ) -> None:
        self.case, self.config = case, case.config
        asked = controls or Controls()
        self.controls = msgspec.structs.replace(asked, fixes=applicable(set(asked.fixes) - lost_fixes(), case))
        self.counters: Counter[str] = Counter()
        self.engine = Engine(case.config, self._discard)
        self.controls.change_engine(self.engine)
        config = case.config
        rules = self.controls.rules(release_rules(config.runner))
        own = self.controls.rules(own_rules(config.runner))
        self.runner, self._paired, self._host_code_lacks = make_runner_model(self.engine, rules, own, host)
        if self._paired:
            self.counters[f"sequences of {config.runner} host code"] += 1
        if self._host_code_lacks is not None:
            self.counters[not_run(config.runner, self._host_code_lacks)] += 1
        sizes = tuple(
            self.engine.kv_cache_config.kv_cache_groups[group].kv_cache_spec.block_size
            for group in self.engine.attention_groups
        )
        device = Device(config.num_blocks, config.kernel - 1 + config.num_spec, max(sizes))
        self.meaning = StateOracle(
            device, config.block_size, config.kernel, self.engine.mamba_groups, self.engine.attention_groups, sizes
        )
        self.meaning.check_entries = self.controls.check_entries
        self.meaning.counters = self.counters
        self.meaning.fresh_rows_start_empty = rules.fresh_rows_start_empty
        self._history = History(self.engine.mamba_groups)
        self._bytes: ByteDevice | None = None
        if kernels is not None:
            self._bytes = ByteDevice(kernels, config, self.meaning, dim_first=self.runner.fuses)
            self.meaning.after_precopy = self._bytes.start
        self._cases = None if keep is None else KernelCaseWriter(config, keep, dim_first=self.runner.fuses)
        outputs = module("vllm.v1.outputs")
        self._make_output, self._make_drafts = outputs.ModelRunnerOutput, outputs.DraftTokenIds
        self._texts: dict[str, Text] = self.meaning.texts
        self._numbers: dict[str, int] = {}
        self._requests: dict[str, Any] = {}
        self._sessions: dict[str, Session] = {}
        self._registered = RegisteredEntries(self.engine, self.meaning)
        self._stops: set[str] = set()
        self._proposed: dict[str, int] = {}
        self._padded = False
        self._queue = self.engine.in_flight
        self._scheduled: dict[str, list[int]] = {}
        self._arrival = 0.0
        self._may_deliver_early = config.asynchronous and self.engine.delivers_early()
        self._progress = Progress()

    def run(self) -> RunResult:
        """Run all events, up to the first violation. Raises UnknownTarget if the release cannot be driven."""
        start = time.process_time()
        violation, skipped, trace, index = None, None, "", -1
        try:
            for index, event in enumerate(self.case.events):  # noqa: B007 - where it stopped is part of the result
                self._do(event)
            if self._bytes is not None:
                self._bytes.finish()
            if self._cases is not None:
                self._cases.finish()
        except ViolationFound as found:
            violation = found.violation
        except HostCodeDiffers as differs:
            violation = violation_of(differs.difference)
        except ReleaseLacks as lacks:
            skipped = str(lacks)
        except UnknownTarget:
            raise
        except (Exception, SystemExit) as error:
            violation, trace = self._exception(error)
        if violation is not None:
            history = self._history.tell(violation)
            trace = "\n".join([*trace.splitlines(), *(["the last steps:"] if history else []), *history])
        return RunResult(
            violation,
            skipped,
            index,
            self.meaning.step,
            time.process_time() - start,
            dict(self.counters),
            trace,
            self._host_code_lacks,
        )

    def _exception(self, error: BaseException) -> tuple[Violation, str]:
        """An exception of production code, as a violation. Any other is ours, and raised again."""
        # Decided by its place: our adapter to the release also has the release's name in its path. A failed call into
        # another package counts as a mistake of the caller.
        tree = f"{Path(module('vllm').__file__).parent.parent}{os.sep}"
        release, ours = f"{tree}vllm{os.sep}", f"{Path(__file__).parents[1]}{os.sep}"
        frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename.startswith((release, ours))]
        if not frames or not frames[-1].filename.startswith(release):
            raise error
        where = frames[-1]
        message = one_line(error)[:160] or where.line or ""
        kind = f"{EXCEPTION}{type(error).__name__}"
        violation = Violation(kind, where.name, self.meaning.step, "the engine", -1, -1, -1, NO_WRITER, message, "")
        # Files go into bug reports: paths begin at the release, and reveal nothing about this machine.
        return violation, "".join(traceback.format_exception(error)[-6:]).replace(tree, "")

    # Events.

    def _do(self, event: Any) -> None:
        if isinstance(event, Step):
            for _ in range(event.repeat):
                self._step(event)
                self.engine.core.settle()
        elif isinstance(event, Add):
            self._add(event)
        elif isinstance(event, Input):
            self._input(event)
        elif isinstance(event, Abort):
            name = f"request {event.request}"
            if name in self.engine.scheduler.requests:
                self.engine.abort(name)
                self.counters["aborts"] += 1
        elif isinstance(event, Finish):
            self._stops.add(f"request {event.request}")
        elif isinstance(event, Reset):
            if self.engine.reset(event.running):
                self.counters["cache resets"] += 1
            self._progress.thrown_away()
        elif isinstance(event, Pause):
            self.engine.pause(event)
            self.counters["pauses" if event.level is None else "sleeps"] += 1
            if event.clears:
                self._progress.thrown_away()
        elif isinstance(event, Resume):
            self.engine.core.resume()
        self.engine.core.settle()

    def _discard(self) -> None:
        """The engine gives up the memory of its KV cache."""
        self.meaning.device.discard()
        if self._bytes is not None:
            self._bytes.discard()

    def _add(self, event: Add) -> None:
        name = f"request {event.request}"
        text = Text(event.prompt, self.config.vocabulary)
        self._texts[name] = text
        self._numbers[name] = event.request
        self._arrival += 1.0
        self._requests[name] = self.engine.add(
            name,
            text.tokens[: text.prompt_length],
            event.outputs,
            event.priority,
            self._arrival,
            STOP,
            event.resumable,
        )
        if event.resumable:
            if not self._sessions:
                self.engine.before_turns(self._forgets_hashes)
            self._sessions[name] = Session(event.prompt, text)
            self.counters["sessions"] += 1
        self._registered.learn(name, self._requests[name], text)
        self._progress.arrives(name, self.meaning.step + 1)
        self.counters["requests"] += 1

    def _input(self, event: Input) -> None:
        name = f"request {event.request}"
        session = self._sessions.get(name)
        if session is None or session.closed or name not in self.engine.scheduler.requests:
            return
        self.counters["chunks of input"] += not event.closes
        self._arrival += 1.0
        tokens = chunk_tokens(event.prompt, self.config.vocabulary) or [STOP]  # the last one has a token, never read
        self.engine.add(name, tokens, event.outputs, 0, self._arrival, STOP, resumable=not event.closes)
        if session.input(event.prompt):
            self._next_turn(name, session)

    def _forgets_hashes(self, request: Any) -> None:
        """A session is about to drop its last token, and hashes with it: one of them may have been registered in the
        same call of the scheduler, so this is the last moment to learn what it means."""
        name = request.request_id
        if name in self._texts:
            self._registered.learn(name, request, self._texts[name])

    def _next_turn(self, name: str, session: Session) -> None:
        """A session has other tokens from here on, and what it had is known for descriptions alone."""
        self._texts[f"{name} before"] = self._texts[name]
        self._texts[name] = session.text
        self._registered.learn(name, self._requests[name], session.text)
        self._proposed.pop(name, None)
        self.counters["turns"] += 1
        self._require_text(name)

    # Steps.

    def _step(self, event: Step) -> None:
        scheduler = self.engine.scheduler
        if not self.config.asynchronous:
            if scheduler.has_requests():
                self._execute(event)
                self._deliver()
                self._hand_over_drafts(event)
            return
        if event.early and self._may_deliver_early:
            while self._queue:
                self._deliver()
        if scheduler.has_requests():
            ran = self._execute(event)
            if len(self._queue) < 2 and (ran or scheduler.has_requests()):
                return
        if self._queue:
            self._deliver()

    def _execute(self, event: Step) -> bool:
        """Schedule and run one step. Returns whether there was anything to run."""
        # A device copies outputs behind the counts: what is delivered has landed.
        landed = not self.config.asynchronous or event.early or not self._queue
        timing = StepTiming(landed, all_delivered=not self._queue)
        output = self.engine.scheduler.schedule()
        for name in self._sessions.keys() & self.engine.scheduler.requests.keys():
            # The hashes of one that resumes are made anew.
            self._registered.learn(name, self._requests[name], self._texts[name])
        self._count(output)
        self._require_tokens(output.num_scheduled_tokens)
        plan = self.runner.begin(output, timing)
        self.runner.as_layers_run(plan)
        self._history.begin(self.meaning.step + 1, plan)
        if self._paired:
            self.counters[f"steps of {self.config.runner} host code"] += 1
        self._scheduled = output.scheduled_spec_decode_tokens
        outcome: Outcome = {}
        if output.total_num_scheduled_tokens:
            outcome = self.meaning.forward(plan, self._right_drafts)
            if self._bytes is not None:
                self._bytes.run(plan)
            for name in self._stops.intersection(outcome):
                kept, tokens = outcome[name]
                if tokens:
                    self._stops.discard(name)
                    outcome[name] = (kept, [*tokens[:-1], STOP])
            inputs = self.runner.end(outcome)
            counts = self.meaning.postprocess(inputs)
            self._history.end({name: kept for name, (kept, _) in outcome.items()}, self.meaning.moved)
            if self._bytes is not None or self._cases is not None:
                sampled = {row.request: outcome[row.request][0] if row.samples else 0 for row in plan.rows}
                if self._bytes is not None:
                    self._bytes.end(plan, inputs, sampled, counts)
                if self._cases is not None:
                    self._cases.add(plan, inputs, sampled)
            self.runner.finish_step(outcome, counts)
            self._propose(event, plan.rows, outcome)
        else:
            self.counters["empty steps"] += 1
            self.meaning.idle(plan)
        self.meaning.check_cache(self._registered.now())
        self._progress.step(self.meaning.step, plan.rows if output.total_num_scheduled_tokens else (), self._situation)
        names = list(outcome)
        made = self._make_output(
            req_ids=names,
            req_id_to_index={name: i for i, name in enumerate(names)},
            sampled_token_ids=[outcome[name][1] for name in names],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )
        self._queue.append(Frame(output, made, outcome))
        return bool(output.total_num_scheduled_tokens)

    def _waits_for_input(self, name: str) -> bool:
        return name in self._sessions and self._sessions[name].waiting

    def _situation(self) -> Situation:
        engine = self.engine
        return Situation(
            {name: len(request._all_token_ids) for name, request in engine.scheduler.requests.items()},
            engine.core.paused or any(self._waits_for_input(name) for name in engine.scheduler.requests),
            any(frame.outcome for frame in self._queue),
            self.config.budget,
            engine.pool.get_num_free_blocks(),
            self.config.num_blocks,
        )

    def _require_tokens(self, scheduled: dict[str, int]) -> None:
        """Fail if a row has no tokens or a negative number of them, which no runner can run."""
        for name, count in scheduled.items():
            if count < 1:
                step = self.meaning.step + 1
                held, wanted = f"{count} tokens in this step", "at least 1"
                raise ViolationFound(
                    Violation("negative-schedule", "tokens", step, name, -1, -1, -1, NO_WRITER, held, wanted)
                )

    def _deliver(self) -> None:
        output, made, outcome = self._queue.popleft()
        answers = self.engine.scheduler.update_from_output(output, made)
        alive = self.engine.scheduler.requests
        if self._sessions:
            self._answer(answers)
        for name in outcome:
            request = self._requests.get(name)
            if request is None:
                continue
            self._registered.learn(name, request, self._texts[name])
            if name not in alive:
                del self._requests[name]
                continue
            self._require_text(name)

    def _answer(self, answers: Any) -> None:
        """Give sessions what their clients get."""
        for answer in (one for outputs in answers.values() for one in outputs.outputs):
            session = self._sessions.get(answer.request_id)
            if session is None or answer.request_id not in self.engine.scheduler.requests:
                continue
            if session.deliver(answer.new_token_ids, answer.finish_reason is not None):
                self._next_turn(answer.request_id, session)

    def _require_text(self, name: str) -> None:
        """Fail if a request has other tokens than its text. The last token of a session that waits for input is
        dropped, and may be the stop token."""
        tokens = self._requests[name]._all_token_ids
        tokens = tokens[:-1] if self._waits_for_input(name) else tokens
        text = self._texts[name]
        text.grow(len(tokens))
        if tokens != text.tokens[: len(tokens)]:
            self._wrong_tokens(name, tokens)

    def _wrong_tokens(self, name: str, tokens: list[int]) -> None:
        text = self._texts[name]
        at = next((i for i, token in enumerate(tokens) if token != text.tokens[i]), len(tokens))
        raise ViolationFound(
            Violation(
                "token-mismatch",
                "tokens",
                self.meaning.step,
                name,
                -1,
                -1,
                -1,
                NO_WRITER,
                f"{tokens[at : at + 6]} from position {at} on",
                f"{text.tokens[at : at + 6]}",
            )
        )

    # Drafts.

    def _propose(self, event: Step, rows: list[PlannedRow], outcome: Outcome) -> None:
        """Decide what the drafter proposes after a step: how many of each request's drafts will be right."""
        longest = max(row.computed + row.scheduled for row in rows)
        if self.config.asynchronous and self.config.runner == "V1":  # its host counts all drafts in flight as kept
            alive = self.engine.scheduler.requests
            counts = [alive[row.request].num_computed_tokens for row in rows if row.request in alive]
            longest = max(longest, *counts)
        fits = self.config.runner == "V2" or longest + self.config.num_spec <= self.config.length_limit
        self._padded = not fits  # then the V1 runner proposes zeros, as many as possible, whatever the drafter
        for row in rows:
            if row.samples and self.config.num_spec:
                right = _of(event.right, self._numbers[row.request], self.config.num_spec)
                self._proposed[row.request] = right if fits else 0
            else:
                self._proposed.pop(row.request, None)

    def _right_drafts(self, row: PlannedRow) -> int:
        """How many of the drafts that a row runs are the model's tokens."""
        if not row.drafts:
            return 0
        tokens = self._scheduled.get(row.request, ())
        if not self.config.asynchronous and self.config.runner == "V1":
            text, start = self._texts[row.request], row.computed + row.scheduled - row.drafts
            text.grow(start + row.drafts)
            right = 0
            while right < row.drafts and tokens[right] == text.tokens[start + right]:
                right += 1
            return right
        if not self.runner.has_drafts_of(row.request):
            return 0
        return self._proposed.get(row.request, 0)

    def _hand_over_drafts(self, event: Step) -> None:
        """Give the scheduler the draft tokens of a synchronous engine."""
        if not self.config.num_spec:
            return
        names, drafts = [], []
        for name, right in self._proposed.items():
            request = self.engine.scheduler.requests.get(name)
            if request is None:
                continue
            count = self.config.num_spec
            if self.config.spec_method not in DRAFTERS_OF_ONE_LENGTH and not self._padded:
                count = _of(event.drafts, self._numbers[name], count)
            text, start = self._texts[name], len(request._all_token_ids)
            text.grow(start + count)
            true = min(right, count)
            tokens = text.tokens[start : start + true]
            tokens += [self.config.vocabulary + 1 + i for i in range(count - true)]
            names.append(name)
            drafts.append(tokens)
        # Rows that do not sample have drafts as well, with which a scheduler takes away those that a request had.
        idle = [name for name in self._stepped if name not in self._proposed]
        self._fresh_drafts([*names, *idle], [*drafts, *([] for _ in idle)])

    def _fresh_drafts(self, names: list[str], drafts: list[list[int]]) -> None:
        fresh = [(name, tokens) for name, tokens in zip(names, drafts, strict=True) if name in self._stepped]
        if fresh:
            self.engine.scheduler.update_draft_token_ids(
                self._make_drafts(req_ids=[name for name, _ in fresh], draft_token_ids=[tokens for _, tokens in fresh])
            )

    # Counters.

    def _count(self, output: Any) -> None:
        counters = self.counters
        counters["steps"] += 1
        counters[f"steps, {kept_states(self.config)}"] += 1
        counters["steps, partial hits possible"] += self.config.match_unit is not None
        self._stepped = output.num_scheduled_tokens
        for new in output.scheduled_new_reqs:
            if new.num_computed_tokens:
                counters["admissions with a hit"] += 1
                inside = new.num_computed_tokens % self.config.block_size
                counters["partial hits" if inside else f"whole hits, {kept_states(self.config)}"] += 1
        cached = output.scheduled_cached_reqs
        resumed = getattr(cached, "resumed_req_ids", None) or ()
        counters["resumed"] += len(resumed)
        counters["preemptions"] += len(getattr(output, "preempted_req_ids", None) or ())
        counters["drafts scheduled"] += sum(map(len, output.scheduled_spec_decode_tokens.values()))
        started = [new.req_id for new in output.scheduled_new_reqs]
        self._history.schedule(self.meaning.step + 1, started, partial(decisions_of, output))


def _of(values: tuple[int, ...], number: int, most: int) -> int:
    return min(values[number % len(values)], most) if values else most
