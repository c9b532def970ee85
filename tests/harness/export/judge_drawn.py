"""Judges drawn cases as scripts do, in Triton's interpreter: `judge_drawn.py DIR SEED CASES`. Prints a line of JSON:
how many calls of each operation were compared, what was declined, and what was wrong, by case.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections import Counter

os.environ["TRITON_INTERPRET"] = "1"

from harness.case import PostprocessEntry
from harness.engines.random import Recipe, case_at
from harness.export.form import NotExportable
from harness.export.kernel_data import script_case
from harness.export.kernel_script.judging import Handled, differences
from harness.export.kernel_script.loading import CannotRun

OPERATIONS = ("postprocess", "precopy", "scalar-copy", "preprocess", "postprocess-entry")
SMALL = 64
"""Copies of a launch: the interpreter takes milliseconds for each program."""


def handled(name: str, **how: bool) -> Handled:
    module = name.replace("-", "_")
    part = importlib.import_module(f"harness.export.kernel_script.{module}")
    return Handled(getattr(part, f"expect_{module}"), getattr(part, f"call_{module}"), **how)


def main() -> None:
    directory, seed, cases = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    recipe = Recipe(seed=seed, operations=OPERATIONS, domains=("reachable", "total"), scale="small")
    compared: Counter[str] = Counter()
    declined: Counter[str] = Counter()
    wrong = {}
    for index in range(16 * cases):
        case = case_at(recipe, index * 5)  # of many layouts: sixteen cases share one
        rows = max((len(operation.rows) for operation in case.program), default=0)
        if case.layout.num_states * max(rows, 1) > SMALL:
            continue
        table = {name: handled(name, binds=name != "scalar-copy") for name in OPERATIONS}
        if any(isinstance(operation, PostprocessEntry) and operation.first_use for operation in case.program):
            table["postprocess-entry"] = handled("postprocess-entry", binds=False)
        try:
            found = differences(script_case(case), table, directory, say=lambda _: None)
        except (NotExportable, CannotRun) as reason:
            declined[str(reason)] += 1
            continue
        compared.update(operation.__struct_config__.tag for operation in case.program)
        if found:
            wrong[index] = found
        if compared.total() >= cases:
            break
    print(json.dumps({"compared": compared, "declined": declined, "wrong": wrong}))


main()
