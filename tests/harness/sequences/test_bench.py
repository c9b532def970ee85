"""The sequence benchmark runs every arm and counts what it ran. No figure of it is asserted."""

from __future__ import annotations

from harness.bench.sequences import measure
from harness.sequences.child import HOST_EVERY


def test_every_symbolic_arm_is_measured(newest: str) -> None:
    speeds = measure(newest, (), "native", HOST_EVERY, 1)

    by_name = {speed.name: speed for speed in speeds}
    host, alone = "V2, the release's host code beside all", "V2, our model of the host code alone"
    assert list(by_name) == ["V1", "V2", host, alone]
    assert by_name["V2"].steps == by_name[host].steps > by_name[alone].steps > 0
    assert all(speed.microseconds_per_step > 0 and speed.steps_per_second > 0 for speed in speeds)
