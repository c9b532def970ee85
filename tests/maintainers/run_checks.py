"""Runs the unit tests of reports on one release: `python -m tests.maintainers.run_checks RELEASE NAME...`.

Prints a line of JSON: by name, what the check said of the release and of the release with the suggested rule, `passes`
or the message of its assertion. One process serves one release.
"""

from __future__ import annotations

import importlib
import json
import sys

from harness.kernels.targets.vllm.scheduling.loading import load

PASSES = "passes"


def answer(name: str, suggested: bool) -> str:
    """What a check says. Anything but a failed assertion is a mistake of the test, and ends the process."""
    try:
        importlib.import_module(f"tests.maintainers.{name}").run(suggested)
    except AssertionError as error:
        return str(error)
    return PASSES


def main() -> None:
    release, *names = sys.argv[1:]
    load(release)
    print(json.dumps({name: [answer(name, False), answer(name, True)] for name in names}))


if __name__ == "__main__":
    main()
