"""Sources are read as Python reads them: in the encoding that they name, and without a byte order mark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.kernels.targets.vllm.scheduling.release_source import ReleaseSource
from harness.kernels.targets.vllm.sources import SourceTree
from harness.kernels.targets.vllm.syntax import parsed
from harness.refusal import UnknownTarget

FILE = "vllm/v1/text.py"


def tree(root: Path, data: bytes) -> SourceTree:
    """A tree of one file."""
    path = root / FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return SourceTree(root, "the sample", stable=False)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbfdef f(): ...\n", "def f(): ...\n"),
        (b"# coding: latin-1\ndef f(): return '\xe9'\n", "# coding: latin-1\ndef f(): return '\u00e9'\n"),
        (b"def f():\r\n    return 1\r\n", "def f():\n    return 1\n"),
    ],
)
def test_text_is_what_python_reads(tmp_path: Path, data: bytes, text: str) -> None:
    sample = tree(tmp_path, data)
    assert sample.text(FILE) == text
    assert len(parsed(sample, FILE).body) == 1
    assert ReleaseSource(tmp_path, "the sample").has("vllm.v1.text", "f")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x = '\xe9'\n", "invalid or missing encoding declaration"),
        (b"# coding: latin-1\n" + b"x = 1\n" * 9000 + b"# coding: no\n\xff", ""),
        (b"# coding: klingon\n", "unknown encoding"),
        (b"x = 1\n" * 9000 + b"'\xe9'\n", "not UTF-8 text"),
    ],
)
def test_what_python_cannot_read_is_one_line(tmp_path: Path, data: bytes, reason: str) -> None:
    sample = tree(tmp_path, data)
    if not reason:
        assert sample.text(FILE).endswith("\u00ff"), "the first two lines name the encoding, no others"
        return
    with pytest.raises(UnknownTarget, match=f"^the sample: cannot read {re.escape(FILE)}: {reason}"):
        sample.text(FILE)
    assert ReleaseSource(tmp_path, "the sample").names("vllm.v1.text") == []
