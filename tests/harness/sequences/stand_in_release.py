"""A stand-in for a release: `harness` commands in which running a sequence takes no time and gives what its events say.

Run as a script with the arguments of a `harness` command; children are started by it too. The real one takes ten
seconds to load, and what is done to processes here does not depend on it. HOW is an environment variable, `hang:3`
(sequence 3 of SEED does not end), `crash:3`, `exit:3`, `skip:3`, `break:3` (a mistake of ours), `slow:N` (each takes N
milliseconds), `load:N` (loading does), `refuse:0.31.0` (that release cannot be driven), `lacks` (packages are missing),
comma-separated.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from pathlib import Path

from harness.case.sequence import Add, SequenceCase, encode_sequence
from harness.kernels.targets.vllm.scheduling import loading, sources
from harness.kernels.targets.vllm.scheduling.sources import WholeTree
from harness.oracles.meaning.device import NOBODY
from harness.oracles.meaning.violation import Violation
from harness.refusal import UnknownTarget
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RunResult
from harness.sequences.worker import SequenceWorker

SEED = 5
HOW = "STAND_IN"
CHILD = "serve"


def main() -> None:
    tree = WholeTree(Path(__file__).parent, "a stand-in")
    SequenceWorker.SERVES = (__file__, CHILD)
    sources.whole_tree = lambda name, announce=None: tree  # type: ignore[misc]
    how = [part.partition(":") for part in os.environ.get(HOW, "").split(",") if part]
    if any(kind == "lacks" for kind, _, _ in how):
        sources.REQUIRED = ("no_such_package",)
    else:
        sources.require_packages = lambda: None
    refused = [f"vllm=={value}" for kind, _, value in how if kind == "refuse"]

    def load(name: str) -> WholeTree:
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
            if kind in ("hang", "crash", "exit", "skip", "break")
        }
        pause = next((int(value) / 1000 for kind, _, value in how if kind == "slow"), 0.0)
        child._run = lambda case, *_: run(case, wanted.get(encode_sequence(case), ""), pause)  # type: ignore[assignment]
        child._effects = lambda connection, fixes: connection.send(("effects", [fixes[0]]))
        child.main()
    else:
        from harness.cli.main import main as command

        command()


def run(case: SequenceCase, how: str, pause: float) -> RunResult:
    """What a sequence gives."""
    time.sleep(pause)
    if how == "hang":
        print("hanging", file=sys.stderr, flush=True)
        stay()
    if how == "crash":
        os.abort()
    if how == "exit":
        os._exit(3)
    if how == "skip":
        return RunResult(None, "no such feature", -1, 0, 0.0, {})
    if how == "break":
        raise IndexError("a mistake of ours")
    prompts = [sum(segment.length for segment in event.prompt) for event in case.events if isinstance(event, Add)]
    most = max(prompts, default=0)
    violation = None
    if most >= 20 and most % 3 == 0:
        kind = ("wrong-state-read", "token-mismatch")[case.config.num_spec > 0]
        violation = Violation(kind, "conv", 1, "request 1", 1, 2, 3, NOBODY, "this", "that")
    steps = case.steps
    return RunResult(
        violation, None, 0, steps, 0.001 * steps, {"steps": steps, "odd": zlib.crc32(str(prompts).encode())}
    )


def stay() -> None:
    while True:
        time.sleep(0.01)


if __name__ == "__main__":
    main()
