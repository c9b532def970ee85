"""The base release of a checkout is the nearest known one, found without network where one is in the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kernels.targets import releases
from harness.kernels.targets.vllm.base_release import BaseRelease, base_of, takes_base
from harness.kernels.targets.vllm.family import RELEASES
from harness.kernels.targets.vllm.sources import HYBRID, WORKER
from harness.refusal import UnknownTarget
from tests.releases import edit, editable

NEWEST = RELEASES[-1]

pytestmark = pytest.mark.release


def test_a_known_release_has_none() -> None:
    assert base_of("vllm==0.29.0") is None
    assert base_of("builtin") is None
    assert [takes_base(name) for name in ("vllm==0.29.0", "vllm==9.9", "builtin", "vllm", "path:x")] == [
        False,
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("version", [NEWEST, "0.29.0"])
def test_an_edited_checkout_is_near_the_release_that_it_was_made_from(tmp_path: Path, version: str) -> None:
    checkout = editable(version, tmp_path / "checkout")
    assert str(base_of(f"path:{checkout}")) == f"vllm {version}"
    edit(checkout, WORKER, "\nclass MambaSpecDecodeGPUContext", "\n# an edit\nclass MambaSpecDecodeGPUContext")
    (checkout / HYBRID).unlink()
    (checkout / "vllm/v1/worker/more.py").write_text("")
    found = base_of(f"path:{checkout}")
    assert found == BaseRelease(version, tuple(sorted({WORKER, HYBRID, "vllm/v1/worker/more.py"})))
    assert str(found) == f"vllm {version} with 3 files changed"


def test_lines_decide_where_no_file_is_equal(tmp_path: Path) -> None:
    checkout = editable("0.29.0", tmp_path / "checkout")
    for path in checkout.rglob("*.py"):
        path.write_text(path.read_text(encoding="utf-8") + "# the end\n", encoding="utf-8")
    found = base_of(f"path:{checkout}")
    assert found is not None
    assert found.version == "0.29.0"


def test_a_user_knows_better(tmp_path: Path) -> None:
    checkout = editable(NEWEST, tmp_path / "checkout")
    found = base_of(f"path:{checkout}", "0.29.0")
    assert found is not None
    assert found.version == "0.29.0"
    assert WORKER in found.changed
    with pytest.raises(UnknownTarget, match=r"^--base: unknown release '0\.9'"):
        base_of(f"path:{checkout}", "0.9")


def test_without_a_release_and_a_network_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = editable(NEWEST, tmp_path / "checkout")
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(releases.OFFLINE_VARIABLE, "1")
    notices: list[str] = []
    assert base_of(f"path:{checkout}", announce=notices.append) is None
    (notice,) = notices
    assert notice.startswith(f"to compare with: vllm {NEWEST} is not in the cache")
    assert notice.endswith("what is lost or fixed cannot be said")
