"""A child drives one release: it runs the sequences it is sent, in a process of its own with a fixed hash seed.

Run as `python -m harness.sequences.child`, with the number of an inherited socket and a target. Messages are pairs
(kind, content), pickled.
"""

from __future__ import annotations

import sys
import traceback
from multiprocessing.connection import Connection

from harness.case.sequence import SequenceCase, decode_sequence, encode_sequence
from harness.sequences.controls import Controls
from harness.sequences.recipe import SequenceRecipe, sequence_at
from harness.sequences.result import RESULTS, RunResult


def serve(connection: Connection, target: str) -> None:
    """Load the target, then answer until the other side hangs up."""
    from harness.kernels.targets.base import UnknownTarget
    from harness.kernels.targets.vllm.scheduling.loading import load

    try:
        load(target)
    except UnknownTarget as error:
        connection.send(("refused", str(error)))
        return
    connection.send(("ready", None))
    while True:
        try:
            kind, content = connection.recv()
        except EOFError:
            return
        try:
            if kind == "check":
                _check(connection, *content)
            else:
                _range(connection, *content)
        except UnknownTarget as error:
            connection.send(("refused", str(error)))
        except Exception:
            connection.send(("error", traceback.format_exc()))


def _run(case: SequenceCase, controls: Controls) -> RunResult:
    from harness.kernels.targets.vllm.scheduling.engine import ReleaseLacks
    from harness.sequences.run import SequenceRun

    try:
        run = SequenceRun(case, controls)
    except ReleaseLacks as lacks:
        return RunResult(None, str(lacks), -1, 0, 0.0, {})
    return run.run()


def _check(connection: Connection, text: bytes, controls: Controls) -> None:
    """Run one sequence; answers `result`."""
    result = _run(decode_sequence(text), controls)
    connection.send(("result", (-1, RESULTS.encode(result), None)))


def _range(connection: Connection, recipe: SequenceRecipe, start: int, stop: int, controls: Controls) -> None:
    """Draw and run sequences; answers a `result` each, then `done`."""
    for index in range(start, stop):
        connection.send(("at", index))
        case = sequence_at(recipe, index)
        result = _run(case, controls)
        text = encode_sequence(case) if result.violation is not None else None
        connection.send(("result", (index, RESULTS.encode(result), text)))
    connection.send(("done", stop))


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    try:
        serve(connection, sys.argv[2])
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return


if __name__ == "__main__":
    main()
