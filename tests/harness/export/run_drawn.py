"""Runs drawn sequences as unit tests do: `run_drawn.py RELEASE SEED SEQUENCES STEPS`. Prints a line of JSON: how many
steps ran, and what failed, by sequence. Sequences that reach a known issue of schedulers in that release are left out.
"""

from __future__ import annotations

import json
import os
import random
import sys

from harness.export.sequence_data import script_events, script_settings
from harness.export.unit_test import is_of_scheduler
from harness.generators.draw import RandomDraw
from harness.generators.sequences.configurations import Pins
from harness.generators.sequences.events import draw_sequence
from harness.issues.registry import SEQUENCE_ISSUES
from harness.kernels.targets.vllm.scheduling.loading import load
from harness.kernels.targets.vllm.scheduling.production import production_defaults


def main() -> None:
    release, seed, sequences, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    tree = load(f"vllm=={release}")
    os.environ["VLLM_SOURCES"] = str(tree.directory)
    from harness.export.sequence_test.running import Run

    issues = [one for one in SEQUENCE_ISSUES if is_of_scheduler(one) and one.is_in_release(release)]
    defaults = production_defaults()
    random.seed(seed)
    ran, failed, index = 0, {}, 0
    counted = 0
    while counted < sequences:
        index += 1
        case = draw_sequence(RandomDraw(f"{seed}/{index}"), Pins(), steps, defaults)
        if any(issue.reached_by(case) for issue in issues):
            continue
        counted += 1
        try:
            run = Run(script_settings(case))
            for event in script_events(case):
                run.do(event)
        except Exception as error:
            failed[index] = f"{type(error).__name__}: {str(error)[:300]} {case.config.runner} {case.config.spec_method}"
        ran += case.steps
    print(json.dumps({"steps": ran, "failed": failed}))


main()
