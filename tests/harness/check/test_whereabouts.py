"""Whereabouts: what fails while they are told costs them alone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

from harness.worker import whereabouts

FAILS_ONCE = """
import time
from harness.worker import whereabouts
class Executor:
    failed = False
    def under_way(self, seconds):
        if not self.failed:
            self.failed = True
            raise RuntimeError("no such luck")
        return "kernel", [("file.py", "function", 3)]
whereabouts.hold_question()
whereabouts.answer(Executor(), lambda file: False)
print("ready", flush=True)
time.sleep(60)
"""


def test_a_failure_is_not_told_and_not_the_end() -> None:
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([sys.executable, "-c", FAILS_ONCE], stdout=subprocess.PIPE, stderr=said)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            began = time.monotonic()
            assert whereabouts.ask(process, said) == []
            assert time.monotonic() - began < whereabouts.PATIENCE_SECONDS, "it answered, if with nothing"
            assert whereabouts.ask(process, said) == ["kernel kernel does not end: it runs file.py lines 3"]
            said.seek(0)
            assert said.read() == b""
        finally:
            process.kill()
            process.communicate()
