"""Exceptions of production code: a finding where it had to work, a pass where it refused in time, else our own
fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from harness.case import Case, Precopy, PrecopyRow
from harness.check.judging import HarnessError
from harness.check.outcome import Signature
from harness.check.raised import compile_failure
from harness.kernels.executors.base import KernelDoesNotCompile
from harness.kernels.targets.base import OutsideContract, TargetLacks

MOVE = Precopy(runner="V1", rows=(PrecopyRow(slot=0, source_column=0, destination_column=1, bias=0),))


def decline(shop: Any) -> None:
    assert shop.idle is None, "blocks must be aligned"


def look_up(shop: Any) -> None:
    _ = {}["request 7"]  # type: ignore[var-annotated]


def exhaust(shop: Any) -> None:
    _ = bytearray(1 << 62)


def break_down(shop: Any) -> None:
    _ = 1 // 0


@pytest.fixture(params=["total", "reachable"])
def case(request: pytest.FixtureRequest, make_case: Callable[..., Case]) -> Case:
    return msgspec.structs.replace(make_case(MOVE, MOVE), domain=request.param)


@pytest.mark.parametrize("harm", [decline, look_up])
def test_a_refusal_passes_in_the_total_domain_alone(shop: Any, case: Case, harm: Callable[[Any], None]) -> None:
    shop.idle = True
    (verdict,) = shop.check(case, harm).verdicts
    assert shop.binds == 1
    if case.domain == "total":
        assert verdict.refused
        assert verdict.status == "pass"
        assert ("blocks must be aligned" if harm is decline else "request 7") in verdict.detail
    else:
        error = "AssertionError" if harm is decline else "KeyError"
        assert verdict.signature == Signature("precopy", "exception", error, "call", "-")
        assert verdict.evidence.details[0].startswith("harness/check/test_raised.py:")


def test_an_error_half_way_is_a_finding_everywhere(shop: Any, case: Case) -> None:
    outcome = shop.check(case, decline)  # after the fake kernel has run
    assert outcome.signature == Signature("precopy", "exception", "AssertionError", "half-way", "-")
    assert "memory had changed" in outcome.failure.evidence.summary


def test_breaking_is_not_a_refusal(shop: Any, case: Case) -> None:
    shop.idle = True
    assert shop.check(case, break_down).signature.violation == "ZeroDivisionError"


def test_running_out_of_memory_is_breaking_too(shop: Any, case: Case) -> None:
    shop.idle = True
    assert shop.check(case, exhaust).signature == Signature("precopy", "exception", "MemoryError", "call", "-")


@pytest.mark.parametrize(("harm", "error"), [(0, "AssertionError"), (1, "MemoryError")])
def test_an_exception_of_the_harness_is_not_a_verdict(shop: Any, case: Case, harm: int, error: str) -> None:
    shop.owns = lambda file: False
    with pytest.raises(HarnessError, match=f"own code failed in precopy: {error}"):
        shop.check(case, (decline, exhaust)[harm])


def test_a_reachable_case_is_never_outside_a_contract(shop: Any, case: Case) -> None:
    def contract(s: Any) -> None:
        raise OutsideContract("addresses are multiples of 8")

    outcome = shop.check(case, contract)
    if case.domain == "total":
        assert outcome.verdicts[0].reason == "outside-contract"
    else:
        assert outcome.signature == Signature("precopy", "exception", "refusal", "call", "-")


def test_what_a_target_lacks_is_a_skip_everywhere(shop: Any, case: Case) -> None:
    def lack(s: Any) -> None:
        raise TargetLacks("it came later")

    assert shop.check(case, lack).verdicts[0].reason == "lacks-operation"


class CompilationError(Exception):
    """Takes the place of Triton's class: recognised by its name, because nothing here imports Triton."""

    def __init__(self, src: str, line: int, error_message: str) -> None:
        super().__init__(f"at {line}:\n{src}\n{error_message}")
        self.src, self.error_message = src, error_message
        self.node = type("Node", (), {"lineno": line})()


class CompileTimeAssertionFailure(CompilationError):
    pass


def test_a_kernel_that_does_not_compile_is_not_a_verdict(shop: Any, case: Case) -> None:
    def harm(s: Any) -> None:
        raise CompilationError("def copy(a):\n    b = oops(a)", 2, "oops is not\ndefined")

    with pytest.raises(KernelDoesNotCompile) as caught:
        shop.check(case, harm)
    assert str(caught.value) == ("pretended: kernel copy does not compile at `b = oops(a)`: oops is not defined")


def test_a_kernel_that_does_not_compile_is_located_where_it_is_wrong(shop: Any, case: Case) -> None:
    """Triton wraps an error in a function once more at each call of it."""

    class Generator:
        """Takes the place of Triton's code generator of one function."""

        def __init__(self, file_name: str, begin_line: int, src: str) -> None:
            self.file_name, self.begin_line = file_name, begin_line
            self.jit_fn = type("Function", (), {"src": src})()

        def visit(self, line: int, inner: Callable[[], None]) -> None:
            try:
                inner()
            except CompilationError as error:
                raise CompilationError(self.jit_fn.src, line, "") from error

        def fail(self) -> None:
            raise CompilationError(self.jit_fn.src, 2, "NameError('oops is not defined')")

    inner = Generator("/src/shift.py", 40, "def shift(a):\n    return oops(a)")
    outer = Generator("/src/copy.py", 10, "def copy(a):\n    return shift(a)")
    with pytest.raises(KernelDoesNotCompile) as caught:
        shop.check(case, lambda s: outer.visit(2, inner.fail))
    assert str(caught.value) == (
        "pretended: kernel shift does not compile in shift.py line 42 at `return oops(a)`: "
        "NameError('oops is not defined')"
    )


def test_a_static_assertion_is_a_refusal(shop: Any, case: Case) -> None:
    def harm(s: Any) -> None:
        raise CompileTimeAssertionFailure("def copy(a):\n    tl.static_assert(False)", 2, "")

    shop.idle = True
    outcome = shop.check(case, harm)
    assert compile_failure(CompileTimeAssertionFailure("", 1, "")) is None
    assert (outcome.failure is None) == (case.domain == "total")
