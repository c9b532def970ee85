"""The command line of a script."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from harness.export.kernel_script.case import Case
from harness.export.kernel_script.judging import Handled, differences
from harness.export.kernel_script.loading import CannotRun
from harness.export.kernel_script.objects import Setup


def main(
    case: Case,
    handled: dict[str, Handled],
    start: Callable[[Setup], None] | None = None,
    note: str = "",
    blind: bool = False,
) -> int:
    """Print what is wrong, or the note that belongs to a pass; `blind`: a pass says nothing of the finding. Returns the
    exit status."""
    parser = argparse.ArgumentParser(
        epilog="Status 1: something is wrong; 0: nothing is; 2: this cannot run, or cannot see such a finding."
    )
    parser.add_argument("--vllm", metavar="DIR", help="a folder with the sources of vLLM, instead of the installed one")
    try:
        wrong = differences(case, handled, parser.parse_args().vllm, start)
    except CannotRun as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    for line in wrong:
        print(f"WRONG: {line}")
    if not wrong and note:
        print(f"but: {note}")
    if not wrong and blind:
        print("so this pass says nothing of the finding (status 2)")
        return 2
    return 1 if wrong else 0
