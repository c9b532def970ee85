"""`byte-script`: one Python file that shows a finding of kernels with torch, triton and the vLLM in question alone.

It builds the memory of the case, calls the release's own entry point, works out by scalar code what memory has to hold,
and compares. What only a special executor sees, it says, and what it can show of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import __version__
from harness.case import Case
from harness.case.operations.results import ACCEPTED_ON_HOST, ACCEPTED_OUT, COLUMNS
from harness.check.outcome import Signature
from harness.export.composing import compose
from harness.export.form import Form, NotExportable, Request
from harness.export.kernel_data import script_case
from harness.export.literals import comment, file_name, literal, plain, words
from harness.repro import Repro

FOLDER = "harness.export.kernel_script"

COMPARED_RESULTS = (ACCEPTED_OUT, ACCEPTED_ON_HOST, COLUMNS)
"""Results that the host sees and the script compares."""

SLOW = 1000
"""Copies of a launch from which Triton's interpreter takes minutes."""


class ByteScript(Form):
    """See the module."""

    name = "byte-script"
    summary = "a script that needs torch, triton and vLLM alone, and compares every byte with scalar code"
    ending = ".py"
    kinds = ("case",)

    def text(self, request: Request) -> str:
        repro = request.repro
        assert isinstance(repro, Repro)
        name = f"{file_name(request.file)}{self.ending}"
        usage = (
            f"    python {name}               with the installed vLLM",
            f"    python {name} --vllm DIR    with the sources in DIR: an unpacked wheel, a checkout",
        )
        head = comment(*heading(request, repro, self.name), "") + "".join(f"# {line}\n" for line in usage)
        return head + comment("", *limits(repro)) + body(repro, "command") + _ending(repro)


BYTE_SCRIPT = ByteScript()


def _ending(repro: Repro) -> str:
    note = literal(" ".join(limits(repro)))
    blind = ", blind=True" if is_blind(repro) else ""
    end = f"    sys.exit(main(CASE, HANDLED{start_argument(repro)}, note=NOTE{blind}))\n"
    return f'NOTE = {note}\n\n\nif __name__ == "__main__":\n{end}'


def body(repro: Repro, *more: str) -> str:
    """A script without its comment and its last lines: `CASE` and `HANDLED`, with all that running them takes,
    and other parts. Raises NotExportable."""
    case = script_case(repro.case)
    names = list(dict.fromkeys(operation.name for operation in case.operations))
    if starts_model_state(repro):
        more = (*more, "model_state")
    entries = ", ".join(f"{literal(name)}: {_handled(repro, name)}" for name in names)
    data = {"case": f"CASE = {literal(case)}"}
    code = compose(FOLDER, [*(name.replace("-", "_") for name in names), *more, "judging"], data)
    return f"{code}\n\nHANDLED = {{{entries}}}\n"


def _handled(repro: Repro, name: str) -> str:
    module = name.replace("-", "_")
    first_use = any(getattr(one, "first_use", False) for one in repro.case.program)
    by_list = name == "scalar-copy" or any(getattr(one, "path", "") == "scalar" for one in repro.case.program)
    binds = ", binds=False" if first_use or by_list else ""
    return f"Handled(expect_{module}, call_{module}{binds})"


def is_blind(repro: Repro) -> bool:
    """Whether scalar code and bytes cannot see what the finding is about, so that a pass says nothing of it."""
    signature = repro.signature
    match signature.oracle:
        case "race":
            return not signature.violation.startswith("between-programs")
        case "access":
            return signature.violation != "out-of-bounds" or "-byte store " not in repro.evidence.summary
        case "host":
            return signature.object not in COMPARED_RESULTS
        case oracle:
            return oracle == "undefined" and not repro.evidence.differences


def starts_model_state(repro: Repro) -> bool:
    """Whether the finding may be the V2 runner's own refusal to start."""
    return repro.signature.oracle == "exception" and any(one.runner == "V2" for one in repro.case.program)


def start_argument(repro: Repro) -> str:
    return ", start=start_model_state" if starts_model_state(repro) else ""


def heading(request: Request, repro: Repro, form: str) -> list[str]:
    """What was found, where, and by what."""
    case, origin = repro.case, repro.origin
    domain = (
        "A scheduler can produce this case."
        if case.domain == "reachable"
        else "The kernels' specification covers this case; whether a scheduler produces just these numbers and sizes "
        "is not known."
    )
    return [
        f"Shows a finding: {plain(repro.signature)}",
        plain(repro.evidence.summary),
        f"Found on {plain(origin.target)}, executor {plain(origin.executor)}. {domain}",
        f"Written by harness {plain(__version__)} (harness export --as {form}). Needs torch, triton, numpy and "
        "the vLLM in question. Runs on a GPU, or without one on the CPU through Triton's interpreter.",
    ]


def limits(repro: Repro) -> list[str]:
    """What a run of the script can and cannot show of the finding."""
    return [
        *_of_target(repro.origin.target),
        *_of_oracle(repro.signature),
        *_of_execution(repro.case),
        *_of_size(repro.case),
    ]


def _of_target(target: str) -> Iterator[str]:
    if "+" in target:
        yield "It was found with a fault planted in the sources: released ones do not show it."
    elif target == "builtin":
        yield "It was found in the kernels of the harness itself, which the script does not call."


_INTERPRETER = "Triton's interpreter runs one program after the other, each on whole tiles"


def _of_oracle(signature: Signature) -> Iterator[str]:
    oracle, violation = signature.oracle, signature.violation
    if oracle == "race" and violation.startswith("between-programs"):
        yield (
            f"It is a race between programs of one launch. {_INTERPRETER}, in their natural order: it shows wrong "
            "bytes if that order gives them. A GPU chooses the order, and with few programs all of them may read "
            "before any writes."
        )
    elif oracle == "race":
        yield (
            f"It is a race between warps of one program. {_INTERPRETER}, so it cannot show it: equal bytes on the CPU "
            "mean nothing. On a GPU bytes may be wrong in some runs, with large windows rather than with this small "
            "one. The executor `native` of the harness sees it in every run: two accesses to one byte that no "
            "barrier orders."
        )
    elif oracle == "access":
        what = {
            "misaligned": "at an address that its width does not divide",
            "read-only": "to memory that no kernel may write",
        }.get(violation, "outside the memory that the kernel was given")
        sees = "Stores up to 8,192 bytes beyond a buffer" if violation == "out-of-bounds" else "Stores of other bytes"
        yield (
            f"It is an access {what}. {sees} are seen by the script, as wrong bytes; loads are not. The executor "
            "`native` of the harness checks every access."
        )
    elif oracle == "undefined":
        yield (
            "It is an uninitialised value that decides something. The script sees it only if bytes come out wrong; the "
            "executor `native` of the harness follows such values."
        )
    elif oracle == "isolation":
        yield "The process was lost in this call: so may the process of this script be."
    elif signature.relation is not None:
        yield (
            f"It was found by comparing two runs ({words(oracle)}). The script runs the case once, and compares it "
            "with scalar code."
        )
    elif oracle == "host":
        yield "Of what host code sees, the script compares accepted counts and remembered columns."


def _of_execution(case: Case) -> Iterator[str]:
    execution = case.execution
    if execution.high_addresses:
        yield (
            "The device's addresses had their highest bit set, as those of some devices have. The script sets that "
            "bit while the context gathers addresses, then gathers the real ones for the launch."
        )
    settings = [f"in {execution.program_order} order"] if execution.program_order != "natural" else []
    if execution.interleave > 1:
        settings.append(f"{execution.interleave} at a time")
    if execution.warps == "apart":
        settings.append("each warp on its own")
    if settings:
        yield (
            f"The harness ran the programs of the launch {', '.join(settings)}. {_INTERPRETER}, in their natural "
            "order; a GPU in an order of its own."
        )


def _of_size(case: Case) -> Iterator[str]:
    programs = case.layout.num_states * max((len(operation.rows) for operation in case.program), default=0)
    if programs > SLOW:
        yield (
            f"Its launches have {programs} copies or more, each of one program or, since 0.28.0, of up to 16: minutes "
            "to hours through Triton's interpreter. It is for a GPU."
        )


__all__ = ["BYTE_SCRIPT", "ByteScript", "NotExportable", "body", "heading", "limits"]
