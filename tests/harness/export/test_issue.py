"""Bug reports in Markdown."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from harness.case.sequence import SequenceConfig
from harness.check.outcome import Difference, Evidence, Signature
from harness.export import serve_command
from harness.export.form import Request
from harness.export.issue import ISSUE
from harness.export.permanent_links import Sources, version_of
from harness.kernels.targets.vllm.sources import WORKER, SourceTree
from harness.repro import Repro, SequenceRepro, read_any, read_repro
from tests.harness.export.test_literals import HOSTILE
from tests.releases import sources

CORPUS = Path(__file__).resolve().parents[3] / "corpus"


def case_repro(name: str) -> Repro:
    return read_repro(CORPUS / f"{name}.json")


def sequence_repro(name: str) -> SequenceRepro:
    _, repro = read_any(CORPUS / "sequences" / f"{name}.json")
    assert isinstance(repro, SequenceRepro)
    return repro


def page(repro: Repro | SequenceRepro, **more: object) -> str:
    kind = "case" if isinstance(repro, Repro) else "sequence"
    fields = {"target": "path:/somewhere", **more}
    return ISSUE.text(Request("finding", kind, repro, **fields))  # type: ignore[arg-type]


def test_the_parts_of_a_page_of_a_kernel_case() -> None:
    text = page(case_repro("v2-accepted-race-temporal"))
    assert text.startswith("# [Bug]: Mamba postprocess (temporal state): bytes that had to be written hold something")
    for part in (
        "### Your current environment",
        "### 🐛 Describe the bug",
        "A scheduler can produce this case",
        "the V2 model runner, speculative decoding with 1 draft",
        "VLLM_USE_V2_MODEL_RUNNER=1 vllm serve MODEL",
        "| 0 | 0 | 1 | temporal | 4 | 2 | 16 | 24 |",
        "| 0 | 2 | 1 | 1 | 2 | 0 | column 0 to column 0, 1 tokens on |",
        "accepted-count-race",
        "python finding.py --vllm DIR",
    ):
        assert part in text, part


def test_the_parts_of_a_page_of_a_step_sequence() -> None:
    repro = msgspec.structs.replace(sequence_repro("left-out-row"), settings=("synchronous scheduling (default no)",))
    text = page(repro)
    for part in (
        "--max-num-batched-tokens 3 ",
        "It needs synchronous scheduling (default no).",
        "| budget | 3 |",
        "add request 1, prompt [1 of text 0], outputs 4",
        "There is no script:",
    ):
        assert part in text, part
    assert "It happens at default options" in page(msgspec.structs.replace(repro, settings=()))
    assert "is not known" in page(msgspec.structs.replace(repro, settings=None))


def test_a_sweep_is_a_table() -> None:
    rows = [("vllm==0.27.1", "FAILED"), ("vllm==0.28.0", "FIXED")]
    text = page(case_repro("v2-accepted-race-temporal"), swept=rows, affected="Affects 0.27.1.")
    assert "| `vllm==0.28.0` | FIXED |\n\nAffects 0.27.1." in text


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_texts_of_a_file_stay_in_code(text: str) -> None:
    """Every backquote and fence of the page is ours, and no line of the file begins one of the page."""
    replace = msgspec.structs.replace
    for plain in (case_repro("v2-accepted-race-temporal"), sequence_repro("left-out-row")):
        hostile = replace(
            plain,
            evidence=replace(plain.evidence, summary=text, details=(text,)),
            origin=replace(plain.origin, target=text, executor=text),
        )
        found, wanted = (
            page(hostile).splitlines(),
            page(replace(plain, evidence=replace(plain.evidence, details=("x",)))).splitlines(),
        )
        assert sum(line.startswith("```") for line in found) == sum(line.startswith("```") for line in wanted)
        assert all(line.count("`") % 2 == 0 for line in found if not line.startswith("```"))


EVIL = "EVIL <b>b</b> [x](javascript:y) @somebody #1 *z* ![i](http://x) $(id) `c`"


def test_nothing_of_a_file_means_anything_in_markdown() -> None:
    """Outside of code there is no link, no tag and no mention that a text of a file brought."""
    replace = msgspec.structs.replace
    for plain in (case_repro("v2-accepted-race-temporal"), sequence_repro("left-out-row")):
        changes = {
            "signature": Signature(EVIL, f"relation:{EVIL}", EVIL, EVIL, EVIL),
            "evidence": Evidence(EVIL, (Difference(EVIL, EVIL, EVIL, 0, 1, EVIL, EVIL, EVIL),), 1, (EVIL,)),
            "origin": replace(plain.origin, target=EVIL, executor=EVIL, harness_version=EVIL),
        }
        if isinstance(plain, SequenceRepro):
            changes |= {"issue": EVIL, "settings": (EVIL,)}
        text = ISSUE.text(Request(EVIL, "case", replace(plain, **changes), f"path:{EVIL}", [(EVIL, EVIL)], EVIL))
        outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        outside = re.sub(r"`[^`\n]*`", "", outside)
        assert "EVIL" in outside
        for part in ("<b>", "](java", "@some", "#1", "*z*", "![", "$("):
            assert part not in outside, part
        assert "$(" not in "".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL))


def test_the_command_line_has_the_settings() -> None:
    config = SequenceConfig(
        runner="V2",
        asynchronous=True,
        block_size=8,
        spec_method="mtp",
        num_spec=2,
        retention=16,
        match_unit=4,
        shared_prefix_checkpoint=True,
        policy="priority",
        length_limit=64,
        budget=5,
        prefill_threshold=4,
        requests=2,
        num_blocks=99,
    )
    assert re.sub(r" \\\n +", " ", serve_command.of_sequence(config)) == (
        "VLLM_USE_V2_MODEL_RUNNER=1 vllm serve MODEL --enable-prefix-caching --mamba-cache-mode align --block-size 8 "
        "--max-model-len 64 --max-num-batched-tokens 5 --max-num-seqs 2 --num-gpu-blocks-override 99 "
        "--async-scheduling "
        """--speculative-config '{"method": "mtp", "num_speculative_tokens": 2}' --scheduling-policy priority """
        "--long-prefill-token-threshold 4 --prefix-cache-retention-interval 16 --prefix-match-unit 4 "
        "--enable-mamba-shared-prefix-checkpoint"
    )


@pytest.mark.parametrize(
    ("target", "version"),
    [("vllm==0.27.1", "0.27.1"), ("vllm==0.27.1+wrong-group", "0.27.1"), ("path:../vllm", None), ("vllm==../x", None)],
)
def test_only_releases_have_links(target: str, version: str | None) -> None:
    assert version_of(target) == version


def test_places_of_evidence_become_links(tmp_path: Path) -> None:
    file = tmp_path / WORKER
    file.parent.mkdir(parents=True)
    file.write_text("def first():\n    pass\n\n\nclass Kind:\n    def second(self):\n        pass\n")
    found = Sources("1.2.3", SourceTree(tmp_path, "x", stable=True))
    start = f"https://github.com/vllm-project/vllm/blob/v1.2.3/{WORKER}"
    texts = [
        "mamba_utils.py line 2, in first",
        f"{WORKER}:7, and ../../etc/passwd.py:1",
        "mamba_utils.py line 7, in first",
    ]
    assert list(found.places(texts)) == [
        f"[{WORKER}:2, in first]({start}#L2)",
        f"[{WORKER}:7, in second]({start}#L7)",
    ]
    assert found.definition(WORKER, "Kind.second") == f"[Kind.second]({start}#L6)"
    assert found.definition(WORKER, "Kind.third") is None


@pytest.mark.long
@pytest.mark.release
def test_a_page_of_a_release_links_to_its_lines() -> None:
    sources("0.27.1")
    text = page(case_repro("v2-accepted-race-temporal"), target="vllm==0.27.1")
    assert "[run_fused_postprocess_align](https://github.com/vllm-project/vllm/blob/v0.27.1/vllm/v1/worker/" in text
