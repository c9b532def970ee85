"""The same seed gives the same case in every process, and a case depends only on its own seed text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.case import encode_case
from harness.generators.cases import draw_case, draw_layout
from harness.generators.draw import RandomDraw

ROOT = Path(__file__).parents[2]

SCRIPT = """
import hashlib
from harness.case import encode_case
from harness.generators.cases import draw_case, draw_layout
from harness.generators.draw import RandomDraw

digest = hashlib.sha256()
for domain in ("reachable", "total"):
    for scale in ("small", "full"):
        for index in range(48):
            plan = draw_layout(RandomDraw(f"3/layout/{index // 16}"), domain, scale)
            case = draw_case(RandomDraw(f"3/case/{index}"), plan, domain, ("postprocess", "precopy"), scale)
            digest.update(encode_case(case))
print(digest.hexdigest())
"""


def digest(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def test_processes_agree_for_any_hash_seed() -> None:
    assert len({digest(seed) for seed in ("0", "1", "4242")}) == 1


@pytest.mark.parametrize("domain", ["reachable", "total"])
def test_order_does_not_matter(domain: str) -> None:
    plans = [draw_layout(RandomDraw(f"8/layout/{i}"), domain, "small") for i in range(3)]

    def draw(i: int) -> bytes:
        plan = plans[i % 3]
        return encode_case(draw_case(RandomDraw(f"8/case/{i}"), plan, domain, ("precopy", "postprocess"), "small"))

    forwards = [draw(i) for i in range(20)]
    backwards = [draw(i) for i in reversed(range(20))]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) == 20
