"""The sequence benchmark runs every arm and counts what it ran. Its figures are not asserted."""

from __future__ import annotations

import pytest

from harness.bench.sequences import measure
from harness.sequences.judge import HOST_EVERY


@pytest.mark.slow
@pytest.mark.long
def test_every_symbolic_arm_is_measured(newest: str) -> None:
    speeds = measure(newest, (), "native", HOST_EVERY["V2"], 1)

    by_name = {speed.name: speed for speed in speeds}
    host = [f"{runner}, with host code in every sequence" for runner in ("V1", "V2")]
    alone = [f"{runner}, our model of the host code alone" for runner in ("V1", "V2")]
    assert list(by_name) == ["V1", "V2", *host, *alone]
    for runner, beside_all, without in zip(("V1", "V2"), host, alone, strict=True):
        assert by_name[runner].steps == by_name[beside_all].steps > by_name[without].steps > 0
    assert all(speed.microseconds_per_step > 0 and speed.steps_per_second > 0 for speed in speeds)
