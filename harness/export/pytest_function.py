"""`pytest`: the finding of a byte script as a test for the kernel project's own suite."""

from __future__ import annotations

import re

from harness.export.byte_script import body, heading, is_blind, limits, start_argument
from harness.export.form import Form, Request
from harness.export.literals import comment, literal
from harness.repro import Repro


class PytestFunction(Form):
    """See the module."""

    name = "pytest"
    summary = "a test for the kernel project's own suite, with the body of the byte script"
    ending = ".py"
    kinds = ("case",)

    def text(self, request: Request) -> str:
        repro = request.repro
        assert isinstance(repro, Repro)
        head = comment(
            *heading(request, repro, self.name),
            "",
            "It tests the installed vLLM, or the sources in the folder that the variable VLLM_SOURCES names. "
            "Without a GPU it sets TRITON_INTERPRET=1; where triton was imported before, without it, the test is "
            "skipped.",
            "",
            *limits(repro),
        )
        blind = _BLIND.format(reason=literal(" ".join(limits(repro)))) if is_blind(repro) else ""
        test = _TEST.format(name=identifier(request.file), start=start_argument(repro))
        return head + body(repro) + test + blind


_TEST = """

def test_{name}() -> None:
    import pytest

    try:
        wrong = differences(CASE, HANDLED, os.environ.get("VLLM_SOURCES"){start})
    except CannotRun as reason:
        pytest.skip(str(reason))
    assert not wrong, "\\n".join(wrong)
"""

_BLIND = """    pytest.skip({reason})
"""
"""The end of a test that passes whether the finding is there or not."""


def identifier(name: str) -> str:
    """The end of a function's name, made of a file's name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "finding"


PYTEST_FUNCTION = PytestFunction()
