"""A bug report about a kernel case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.case import Case, Postprocess, Precopy, operation_name
from harness.export.byte_script import limits
from harness.export.kernel_data import script_case
from harness.export.literals import in_markdown, plain, words
from harness.export.permanent_links import Sources
from harness.export.serve_command import of_case
from harness.issues.registry import kernel_issue
from harness.kernels.targets.vllm.sources import HYBRID, WORKER
from harness.oracles.decisions import decide
from harness.reports.words import difference_in_words, violation_in_words
from harness.repro import Repro
from harness.text import counted

CALLED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("postprocess", "V1"): ("run_fused_postprocess", "postprocess_mamba_fused_kernel"),
    ("postprocess", "V2"): ("run_fused_postprocess_align", "postprocess_mamba_fused_kernel"),
    ("precopy", "V1"): ("run_fused_precopy", "precopy_mamba_align_fused_kernel"),
    ("precopy", "V2"): ("run_fused_precopy", "precopy_mamba_align_fused_kernel"),
    ("scalar-copy", "V1"): ("collect_mamba_copy_meta", "do_mamba_copy_block", "batch_memcpy_kernel"),
    ("preprocess", "V1"): ("preprocess_mamba",),
    ("postprocess-entry", "V1"): ("stage_postprocess_inputs_to_gpu", "postprocess_mamba_align_gpu"),
}
"""Functions of vLLM that an operation calls, by operation and runner."""

SHOWN_ROWS = 40


class CasePage:
    """The parts of the page. Texts of the repro file get in through `plain` and `in_markdown` alone."""

    def __init__(self, repro: Repro, sources: Sources | None) -> None:
        self._repro, self._sources, self._case = repro, sources, repro.case

    @property
    def title(self) -> str:
        signature = self._repro.signature
        what = violation_in_words(signature.oracle, signature.violation)
        where = f" ({signature.object} state)" if signature.object in ("conv", "temporal") else ""
        return f"Mamba {signature.operation}{where}: {what}"

    @property
    def known(self) -> str:
        issue = kernel_issue(self._repro.origin.target, self._repro.signature, self._case)
        return issue.line if issue is not None else ""

    about_command = (
        "The kernels of this case run with such a server, for a hybrid model with Mamba-like layers. The numbers of "
        "the case are small on purpose; which requests lead to them is in its tables."
    )

    def environment(self, target: str) -> Iterator[str]:
        origin = self._repro.origin
        yield f"- vLLM: `{target}`, its own entry points (found on {in_markdown(origin.target)})"
        yield f"- run by: executor {in_markdown(origin.executor)}; the script below says what it runs on"
        yield "- model: none; memory, block tables and arguments are built as a model runner does"

    def happens(self) -> Iterator[str]:
        evidence = self._repro.evidence
        if evidence.diagnosis is not None and evidence.diagnosis.deviations:
            yield f"**What explains it.** {in_markdown(evidence.diagnosis.sentence)}."
            yield ""
        if evidence.differences:
            yield "| where | bytes | before | expected | found | what is known of them |"
            yield "|---|---|---|---|---|---|"
            for one in evidence.differences:
                what = difference_in_words(one.violation, unchanged=one.found == one.before)
                known = "; ".join(text for text in (what, one.contents, one.writer) if text)
                cells = (one.place, one.size, one.before, one.expected, one.found, known)
                yield f"| {' | '.join(in_markdown(cell) or '-' for cell in cells)} |"
            yield ""
            yield (
                f"The first bytes of each range are shown. {evidence.total_bytes} bytes differ in all: single ones of "
                "a range may be equal by chance."
            )
        details = [plain(detail) for detail in evidence.details if detail != evidence.summary]
        yield from (f"- {in_markdown(detail)}" for detail in details if detail)

    def reach(self) -> str:
        if self._case.domain == "reachable":
            return (
                "A scheduler can produce this case: tables, columns and counts follow from requests and a block "
                "manager (a simulation of these, checked against the release's own scheduler)."
            )
        return (
            "The kernels' specification covers this case. Whether a scheduler produces just these numbers, sizes and "
            "places is not known; the same code runs for those that it does produce."
        )

    def options(self) -> str:
        layout, needs = self._case.layout, []
        if layout.num_spec:
            needs.append(f"speculative decoding with {counted(layout.num_spec, 'draft')}")
        if layout.conv_layout == "DS":
            needs.append("conv states in DS layout (the default is SD)")
        if self._case.execution.high_addresses:
            needs.append("a device whose addresses have their highest bit set")
        runner = "V2" if any(one.runner == "V2" for one in self._case.program) else "V1"
        listed = f", {', '.join(needs)}" if needs else ""
        return f"It needs prefix caching in `align` mode and the {runner} model runner{listed}."

    def command(self) -> str:
        return of_case(self._case)

    def tables(self) -> Iterator[str]:
        case, layout = self._case, self._case.layout
        yield (
            f"Blocks of {layout.block_size} tokens, {layout.num_blocks} of them (0 is the null block), "
            f"{counted(layout.num_spec, 'draft')}, conv layout {layout.conv_layout}. Sizes and strides are bytes."
        )
        yield ""
        yield "| group | layer | state | kind | shape of a block | element | offset | block stride |"
        yield "|---|---|---|---|---|---|---|---|"
        data = script_case(case) if _scriptable(case) else None
        rows = [
            f"| {g} | {n} | {s} | {state.kind} | {' x '.join(map(str, state.shape))} | {state.item} | {state.offset} "
            f"| {state.block_stride} |"
            for g, group in enumerate(data.groups if data is not None else ())
            for n, layer in enumerate(group)
            for s, state in enumerate(layer.states)
        ]
        yield from _first(rows)
        yield ""
        yield "Block tables (the cells that the case gives; others are stale):"
        yield ""
        yield "| group | slot | blocks by column |"
        yield "|---|---|---|"
        tables = enumerate(case.contents.tables)
        yield from _first(
            [f"| {g} | {slot} | {' '.join(map(str, row))} |" for g, table in tables for slot, row in enumerate(table)]
        )
        for number, operation in enumerate(case.program):
            names = operation.rows[0].__struct_fields__ if operation.rows else ()
            yield ""
            yield f"Call {number}: {operation_name(operation)}, {operation.runner} runner"
            if not names:
                continue
            moves = decide(operation, layout.block_size) if isinstance(operation, Postprocess | Precopy) else None
            yield ""
            yield f"| {' | '.join(names)} |{' what has to move |' if moves is not None else ''}"
            yield "|---" * (len(names) + (moves is not None)) + "|"
            lines = []
            for i, row in enumerate(operation.rows):
                line = f"| {' | '.join(str(getattr(row, name)) for name in names)} |"
                if moves is not None:
                    decided = moves[i]
                    move = decided.move if decided is not None else None
                    line += f" {'nothing' if move is None else _move(move.source, move.destination, move.bias)} |"
                lines.append(line)
            yield from _first(lines)

    def links(self) -> Iterator[str]:
        evidence = self._repro.evidence
        if self._sources is None:
            for at in evidence.places:
                yield f"{words(at.role)} at `{words(at.file)}:{at.line}`, in `{words(at.function)}`"
            return
        named = [f"{at.file}:{at.line}" for at in evidence.places]
        yield from self._sources.places([*named, evidence.summary, *evidence.details])
        for operation in self._case.program:
            for name in CALLED.get((operation_name(operation), operation.runner), ()):
                link = self._sources.method(WORKER, name)
                if link is not None:
                    yield f"called: {link}"
        if self._repro.signature.oracle == "exception" and any(one.runner == "V2" for one in self._case.program):
            link = self._sources.method(HYBRID, "_ensure_align_ctx") or self._sources.method(
                HYBRID, "initialize_kv_cache"
            )
            if link is not None:
                yield f"the V2 runner's model state: {link}"

    def steps(self, name: str) -> Iterator[str]:
        yield f"The script `{name}.py` (`harness export {name}.json --as byte-script`) needs torch, triton and vLLM:"
        yield ""
        yield "```sh"
        yield f"python {name}.py               # with the installed vLLM"
        yield f"python {name}.py --vllm DIR    # with the sources in DIR: an unpacked wheel, or a checkout"
        yield "```"
        yield ""
        yield "It ends with status 1 and prints expected and found bytes if something is wrong, with 0 if nothing is,"
        yield "and with 2 if it cannot run, or sees nothing wrong and cannot see what this finding is about."
        yield from limits(self._repro)


def _move(source: int, destination: int, bias: int) -> str:
    return f"column {source} to column {destination}, {bias} tokens on"


def _first(rows: list[str]) -> Iterator[str]:
    yield from rows[:SHOWN_ROWS]
    if len(rows) > SHOWN_ROWS:
        yield ""
        yield f"and {len(rows) - SHOWN_ROWS} more rows; the file has all of them."


def _scriptable(case: Case) -> bool:
    from harness.export.form import NotExportable

    try:
        script_case(case)
    except NotExportable:
        return False
    return True
