"""streamed-session: a session's next turn starts from the state of the tokens that it counts
(docs/reports/streamed-session.md).

In vLLM's tests: a resumable request in a scheduler of `create_scheduler`, whose outputs go to the fixture
`model_runner`.
"""

from __future__ import annotations

from harness.kernels.targets.vllm.scheduling.engine import Engine
from harness.kernels.targets.vllm.scheduling.host_code_v1 import HostCodeV1
from harness.kernels.targets.vllm.scheduling.host_code_v2 import HostCodeV2
from harness.kernels.targets.vllm.scheduling.rules_v1 import own_rules_v1
from harness.kernels.targets.vllm.scheduling.rules_v2 import own_rules_v2
from harness.kernels.targets.vllm.scheduling.runner_model import StepTiming
from tests.maintainers.objects import SAMPLED, computed_before, config, deliver, sampled_output, switch_on

ISSUE = "streamed-session"
PROMPT, ACCEPTED = 4, 4


def check(engine: Engine, runner: str) -> None:
    """A prompt of 4 tokens; a step that keeps three drafts, and so reaches the 5 tokens asked for; a chunk of 4 tokens.
    A prefill reads the first of the state columns, which has the state after the first token of that step."""
    code = HostCodeV1(engine, own_rules_v1()) if runner == "V1" else HostCodeV2(engine, own_rules_v2())
    request = engine.add("a", list(range(PROMPT)), 5, 0, 0.0, stop=-1, resumable=True)
    for kept in (1, ACCEPTED):
        output = engine.scheduler.schedule()
        code.begin(output, StepTiming(all_delivered=True))
        code.end({"a": (kept, [SAMPLED] * kept)})
        code.finish_step({"a": (kept, [])}, {"a": kept})
        engine.scheduler.update_from_output(output, sampled_output({"a": kept}))
        request.spec_token_ids = [SAMPLED] * 3 if request.status.name == "RUNNING" else []
    engine.add("a", list(range(4)), 5, 0, 1.0, stop=-1, resumable=True)
    (row,) = code.begin(engine.scheduler.schedule(), StepTiming(all_delivered=True)).rows
    # The step from token 4 wrote the state of 5 tokens to column 0, and that of 8 to column 3.
    held = row.computed if row.computed == 0 else PROMPT + 1
    assert row.speculative or row.computed == held, (
        f"{runner}: a prefill from token {row.computed} on reads column {row.state_column}, which holds the state "
        f"after {held} tokens"
    )


def check_hashes(engine: Engine) -> None:
    """A session of 7 tokens, of whose turn the eighth is dropped, takes nothing from a request that has this eighth."""
    engine.add("other", [*range(7), SAMPLED, 90, 91, 92], 1, 0, 0.0, stop=-1)
    while engine.scheduler.requests:
        deliver(engine, engine.scheduler.schedule())
    engine.add("a", list(range(7)), 1, 0, 0.0, stop=-1, resumable=True)
    deliver(engine, engine.scheduler.schedule())
    engine.add("a", list(range(60, 80)), 1, 0, 1.0, stop=-1, resumable=True)
    taken = computed_before(engine.scheduler.schedule())["a"]
    assert taken == 0, f"the session takes {taken} tokens of another text from the cache"


def run(suggested: bool) -> None:
    """The suggested rule: where a session's turn ends its blocks are freed, and its next turn starts like a request
    that is new, from what the prefix cache has."""
    found = []
    for runner in ("V1", "V2"):
        engine = Engine(config(runner=runner, spec_method="mtp", num_spec=3, block_size=16))
        if suggested:
            switch_on(engine, ISSUE)
        try:
            check(engine, runner)
        except AssertionError as error:
            found.append(f"{error}")
    if len(found) == 1:
        raise RuntimeError(f"only one of the runners shows the issue: {found[0]}")
    assert not found, "; ".join(found)
    engine = Engine(config(retention=None))
    if suggested:
        switch_on(engine, ISSUE)
    check_hashes(engine)
