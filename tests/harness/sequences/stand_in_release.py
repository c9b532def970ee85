"""A stub of a release: step sequences that run in no time and give the results that their events ask for.

Run as a script it is a `harness` command whose workers are stubs too; run with `serve`, it is such a worker. A real
release takes ten seconds to load, and what is done to processes here does not depend on it. HOW is an environment
variable with words, comma-separated. A word and a number say what sequence NUMBER of SEED does: `hang:3`, `crash:3`,
`exit:3`, `kill:3` (as Linux does when memory runs out), `kill-once:3` (the file that MARK names exists from then on),
`fault:3` (the device is gone), `warn:3`, `skip:3`, `break:3` and `quit:3` (mistakes of ours). Others are for all
sequences: `right` (no violations), `load:N` (loading takes N milliseconds), `patience:N` (after N milliseconds a line
says that it still loads; without this word there is no such line, even on a busy machine), `refuse:0.31.0` (that
release cannot be driven), `lacks` (packages are missing).
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

from harness.case.sequence import Add, SequenceCase, encode_sequence
from harness.kernels.executors.base import DeviceFault
from harness.kernels.targets.vllm.scheduling import loading, sources
from harness.kernels.targets.vllm.scheduling.sources import WholeTree
from harness.oracles.states.device import NO_WRITER
from harness.oracles.states.violation import Violation
from harness.refusal import UnknownTarget
from harness.sequences import effects, judge
from harness.sequences.judge import AboutDefaults
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RunResult
from harness.worker import child, process
from harness.worker.process import WorkerProcess

SEED = 5
HOW, MARK = "STAND_IN", "STAND_IN_MARK"
CHILD = "serve"
DONE_TO_ONE = ("hang", "crash", "exit", "kill", "kill-once", "fault", "warn", "skip", "break", "quit")


def main() -> None:
    tree = WholeTree(Path(__file__).parent, "a stand-in")
    WorkerProcess.SERVES = (__file__, CHILD)
    process.LOADING_SECONDS = float("inf")
    sources.whole_tree = lambda name, announce=None: tree  # type: ignore[misc]
    how = [part.partition(":") for part in os.environ.get(HOW, "").split(",") if part]
    if any(kind == "lacks" for kind, _, _ in how):
        sources.REQUIRED = ("no_such_package",)
    else:
        sources.require_packages = lambda: None
    for kind, _, value in how:
        if kind == "patience":
            process.LOADING_SECONDS = int(value) / 1000
    refused = [f"vllm=={value}" for kind, _, value in how if kind == "refuse"]

    def load(name: str, base: str | None = None) -> WholeTree:
        time.sleep(sum(int(value) for kind, _, value in how if kind == "load") / 1000)
        if name in refused:
            raise UnknownTarget("a module\ndoes not import here")
        return tree

    loading.load = load
    if sys.argv[1:2] == [CHILD]:
        del sys.argv[1]
        wanted = {
            encode_sequence(sequence_at(SequenceRecipe(SEED), int(value))): kind
            for kind, _, value in how
            if kind in DONE_TO_ONE
        }
        right = any(kind == "right" for kind, _, _ in how)

        def run(case: SequenceCase, *_: Any) -> RunResult:
            return gives(case, wanted.get(encode_sequence(case), ""), right)

        judge.run = run
        effects.without_effect = lambda fixes: [fixes[0]]
        judge.about_defaults = lambda: AboutDefaults(None)
        child.main()
    else:
        from harness.cli.main import main as command

        command()


def gives(case: SequenceCase, how: str, right: bool) -> RunResult:
    """The result of a sequence."""
    harm(how)
    if how == "skip":
        return RunResult(None, "no such feature", -1, 0, 0.0, {})
    prompts = [sum(segment.length for segment in event.prompt) for event in case.events if isinstance(event, Add)]
    most = max(prompts, default=0)
    violation = None
    if most >= 20 and most % 3 == 0 and not right:
        kind = ("wrong-state-read", "token-mismatch")[case.config.num_spec > 0]
        violation = Violation(kind, "conv", 1, "request 1", 1, 2, 3, NO_WRITER, "this", "that")
    steps = case.steps
    return RunResult(
        violation,
        None,
        0,
        steps,
        0.001 * steps,
        {"steps": steps, "rows": steps, "odd": zlib.crc32(str(prompts).encode())},
    )


def harm(how: str) -> None:
    """Do to the process what the words say."""
    if how == "hang":
        print("hanging", file=sys.stderr, flush=True)
        stay()
    if how == "crash":
        os.abort()
    if how == "exit":
        os._exit(3)
    if how == "kill" or (how == "kill-once" and not os.path.exists(os.environ[MARK])):
        Path(os.environ[MARK]).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "fault":
        raise DeviceFault("the device is gone")
    if how == "warn":
        warnings.warn("something\nto know", stacklevel=1)
    if how == "quit":
        sys.exit(0)
    if how == "break":
        raise IndexError("a mistake of ours")


def stay() -> None:
    while True:
        time.sleep(0.01)


if __name__ == "__main__":
    main()
