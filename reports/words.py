"""Texts of reports for violations and differences."""

from __future__ import annotations

from collections.abc import Sequence

from harness.check.outcome import CodePlace

_VIOLATIONS = {
    "wrong-bytes": "bytes that had to be written hold something else",
    "stray-write": "bytes changed that were not to change",
    "wrong-count": "an accepted count is wrong",
    "out-of-bounds": "an access outside everything that the kernel may touch",
    "misaligned": "an access at an address that its width does not divide",
    "read-only": "a store to what no kernel may write",
    "between-programs": "two programs of one launch touch the same bytes, and nothing orders them",
    "between-programs-identical": "two programs store the same value to the same bytes, and nothing orders them",
    "between-warps": "two warps of one program touch the same bytes, and nothing orders them",
    "between-warps-identical": "two warps of one program store the same value to the same bytes",
    "address": "an undefined number decided which address is touched",
    "branch": "an undefined number decided a mask, a condition or the bound of a loop",
    "bytes": "undefined bytes were copied to where defined ones belong",
    "refusal": "production code declines a case that a scheduler can produce",
    "missing-error": "production code accepts what it has to decline",
    "late-write": "the host wrote a buffer that was still on its way to the device",
    "wrong-result": "a result that the host sees is wrong",
    "stray-result": "an entry changed, in what the host sees, that was not to change",
    "differs": "two runs that have to agree leave different bytes",
    "result-differs": "two runs that have to agree give the host different results",
    "hang": "the operation did not end in time",
    "memory-limit": "the operation took more memory than a worker may have",
    "device-fault": "the device failed and takes no more work",
}
"""What the violation of a signature means (harness.check.outcome.Signature); docs/violations.md has all of them."""


def violation_in_words(oracle: str, violation: str) -> str:
    """The meaning of a signature's violation, as the end of a sentence; an unknown violation is returned unchanged."""
    if violation in _VIOLATIONS:
        return _VIOLATIONS[violation]
    if oracle == "exception":
        return f"production code raised {violation}"
    if violation.startswith("crash-"):
        return f"the process was ended by {violation.removeprefix('crash-')}"
    if violation.startswith("exit-"):
        return f"the process ended itself with status {violation.removeprefix('exit-')}"
    return violation


def difference_in_words(violation: str, *, unchanged: bool) -> str:
    """What happened to one run of bytes; `unchanged`: they are the same as before."""
    if violation == "wrong-bytes":
        return "left as before" if unchanged else "wrong bytes"
    return {"stray-write": "stray write", "differs": "differs between two runs"}.get(violation, violation)


def places_in_words(places: Sequence[CodePlace]) -> str:
    """Lines that people can open, from the innermost one of a kernel to the host's: `store vllm/...py:157 (f), call
    ...`."""
    return ", ".join(f"{place.role} {place.file}:{place.line} ({place.function})" for place in places)
