"""An exception that production code raised, and how it counts: as a refusal, a failure, or a fault of the harness.

An exception decides the verdict, so its origin has to be known. It is the target's if one of the target's source files
is in its traceback. It is a refusal if it comes from the target's own `raise` or `assert` statement, or from a look-up
that names the missing key: code that rejects an input, as opposed to code that breaks.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.code_lines import CodeLine
from harness.text import one_line

Owns = Callable[[str], bool]
"""Whether a file, named as tracebacks name it, is source of the code under test."""


def everything(file: str) -> bool:
    """Every file counts as code under test."""
    return True


_RAISE = dis.opmap["RAISE_VARARGS"]


def is_targets(error: BaseException, owns: Owns) -> bool:
    """Whether code under test was involved."""
    return any(owns(_file(step)) for step in _steps(error))


def is_refusal(error: BaseException, owns: Owns) -> bool:
    """Whether code under test rejected its input: by `raise`, `assert`, a static assertion or a missing key."""
    if type(error).__name__ == "CompileTimeAssertionFailure":  # Triton's, for `tl.static_assert`
        return True
    last = None
    for step in _steps(error):
        last = step
    if last is None or not owns(_file(last)):
        return False
    return isinstance(error, KeyError) or last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


def trail(error: BaseException, owns: Owns) -> tuple[str, ...]:
    """Where in the code under test it happened, innermost first: `vllm/v1/worker/mamba_utils.py:12 (create)`."""
    return tuple(map(str, code_lines(error, owns)))


def code_lines(error: BaseException, owns: Owns) -> tuple[CodeLine, ...]:
    """The lines of the code under test that an exception passed, innermost first."""
    found = [
        CodeLine(_file(step), step.tb_frame.f_code.co_name, step.tb_lineno)
        for step in _steps(error)
        if owns(_file(step))
    ]
    return tuple(reversed(found))


def type_and_message(error: BaseException) -> str:
    """Type and message in one line of bounded length."""
    message = one_line(error)[:500]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def compile_failure(error: BaseException) -> str | None:
    """One line about a kernel that Triton does not compile, or None if that is not what happened.

    A failed static assertion does not count: it is the target's verdict on its arguments.
    """
    chain = list(_chain(error))
    if any(type(link).__name__ == "CompileTimeAssertionFailure" for link in chain):
        return None
    found = [link for link in chain if any(base.__name__ == "CompilationError" for base in type(link).__mro__)]
    if not found:
        return None
    # The innermost error is in the function that is wrong; the outer ones are in its callers, at the call.
    link = next((link for link in reversed(found) if getattr(link, "src", None)), found[-1])
    source = str(getattr(link, "src", None) or "")
    line = getattr(getattr(link, "node", None), "lineno", None)
    text = source.splitlines()[line - 1].strip() if line and line <= len(source.splitlines()) else ""
    name = next((text.split("def ", 1)[1].split("(")[0] for text in source.splitlines() if "def " in text), "")
    reason = getattr(chain[-1], "error_message", None) or str(chain[-1])
    where = [*([] if line is None else _place(link, source, line)), *([f"at `{text}`"] if text else [])]
    place = f"{' '.join(where)}: " if where else ""
    return (
        f"kernel {name or 'of this target'} does not compile{' ' if where else ''}"
        f"{place or ': '}{' '.join(str(reason).split())[:300]}"
    )


def _place(error: BaseException, source: str, line: int) -> list[str]:
    """File and line of a line of a kernel's source text, if Triton's code generator knows them."""
    for step in reversed(list(_steps(error))):
        generator: Any = step.tb_frame.f_locals.get("self")
        file, begin = getattr(generator, "file_name", None), getattr(generator, "begin_line", None)
        if isinstance(file, str) and isinstance(begin, int) and getattr(generator.jit_fn, "src", None) == source:
            return [f"in {Path(file).name} line {begin + line}"]
    return []


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__


def _steps(error: BaseException) -> Iterator[TracebackType]:
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next


def _file(step: TracebackType) -> str:
    return step.tb_frame.f_code.co_filename
