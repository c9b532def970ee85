"""Stack locations: a failure to find them loses nothing else."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

from harness.worker import stack_location

FAILS_ONCE = """
import time
from harness.worker import stack_location
class Executor:
    failed = False
    def under_way(self, seconds):
        if not self.failed:
            self.failed = True
            raise RuntimeError("no such luck")
        return "kernel", [("file.py", "function", 3)]
stack_location.hold_question()
stack_location.answer(Executor(), lambda file: False)
print("ready", flush=True)
time.sleep(60)
"""


def test_a_failure_is_silent_and_not_the_end() -> None:
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([sys.executable, "-c", FAILS_ONCE], stdout=subprocess.PIPE, stderr=output)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            began = time.monotonic()
            assert stack_location.ask(process, output) == []
            assert time.monotonic() - began < stack_location.PATIENCE_SECONDS, "it answered, if with nothing"
            assert stack_location.ask(process, output) == ["kernel kernel does not end: it runs file.py lines 3"]
            output.seek(0)
            assert output.read() == b""
        finally:
            process.kill()
            process.communicate()
