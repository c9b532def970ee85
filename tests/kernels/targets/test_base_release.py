"""The base release of a checkout is the nearest known one, found without network where one is in the cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kernels.targets import releases
from harness.kernels.targets.vllm.base_release import BaseRelease, _checksums, _is_far, base_of, takes_base
from harness.kernels.targets.vllm.edits import TOP, edits_of
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.kernels.targets.vllm.sources import HYBRID, VLLM, VLLM_WHOLE, WORKER, checkout_tree
from harness.refusal import UnknownTarget
from tests.releases import edit, editable, editable_whole, sources

NEWEST = RELEASES[-1]
COMPARED = "; compared: vllm/{v1,model_executor/layers/mamba,utils,config}"

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
    assert str(base_of(f"path:{checkout}")) == f"vllm {version}{COMPARED}"
    edit(checkout, WORKER, "\nclass MambaSpecDecodeGPUContext", "\n# an edit\nclass MambaSpecDecodeGPUContext")
    (checkout / HYBRID).unlink()
    (checkout / "vllm/v1/worker/more.py").write_text("")
    found = base_of(f"path:{checkout}")
    assert found == BaseRelease(version, tuple(sorted({WORKER, HYBRID, "vllm/v1/worker/more.py"})))
    assert str(found) == f"vllm {version} with 3 files changed{COMPARED}"


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


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that makes the cache hold no other releases than some, in a place without network."""
    kept = {version: sources(version) for version in ("0.28.0", "0.32.0")}
    folder = tmp_path / "cache"

    def hold(*versions: str) -> None:
        for version in versions:
            place = folder / "releases" / f"vllm-{version}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(kept[version])
        monkeypatch.setenv("HARNESS_CACHE_DIR", str(folder))
        monkeypatch.setenv(releases.OFFLINE_VARIABLE, "1")

    return hold


def test_without_a_release_and_a_network_it_is_unknown(tmp_path: Path, cache: Callable[..., None]) -> None:
    checkout = editable(NEWEST, tmp_path / "checkout")
    cache()
    notices: list[str] = []
    assert base_of(f"path:{checkout}", announce=notices.append) is None
    (notice,) = notices
    assert notice.startswith(f"path:{checkout} has no release to compare with, so what it has lost, ")
    assert f"are not seen: vllm {NEWEST} is not in the cache, and " in notice
    assert f"What helps: `harness cache fetch {NEWEST}` where there is a network, or --base with " in notice


def test_a_far_release_is_none_unless_the_user_says_so(tmp_path: Path, cache: Callable[..., None]) -> None:
    """Its rules and its issues are those of other code."""
    checkout = editable(NEWEST, tmp_path / "checkout")
    cache("0.28.0")
    notices: list[str] = []
    assert base_of(f"path:{checkout}", announce=notices.append) is None
    (notice,) = notices
    assert "vllm 0.28.0, the nearest that is here, is far (93 of 554 files are equal); vllm " in notice
    notices.clear()
    found = base_of(f"path:{checkout}", "0.28.0", notices.append)
    assert found is not None
    assert found.version == "0.28.0"
    (notice,) = notices
    assert notice.startswith("--base 0.28.0 is far: 93 of 554 files are equal; ")


def test_a_neighbour_is_near(tmp_path: Path, cache: Callable[..., None]) -> None:
    checkout = editable(NEWEST, tmp_path / "checkout")
    cache("0.28.0", "0.32.0")
    notices: list[str] = []
    found = base_of(f"path:{checkout}", announce=notices.append)
    assert found is not None
    assert found.version == "0.32.0"
    assert [notice.split(":")[0] for notice in notices] == ["compared with older releases alone"]


@pytest.mark.long
@pytest.mark.parametrize("version", ["0.24.0", "0.26.0", "0.29.0", "0.30.0", "0.31.0", "0.33.0"])
def test_all_neighbours_are_near(version: str) -> None:
    root, at = sources(version), RELEASES.index(version)
    files = _checksums(root, VLLM)
    for neighbour in (RELEASES[at - 1], *RELEASES[at + 1 : at + 2]):
        sources(neighbour)
        assert not _is_far(root, files, neighbour), neighbour


@pytest.mark.long
def test_what_is_far_from_the_newest() -> None:
    root = sources(NEWEST)
    files = _checksums(root, VLLM)
    for version in ("0.22.0", "0.28.0", "0.29.0", "0.30.0"):
        sources(version)
        assert _is_far(root, files, version), version


def test_sequences_compare_all_files(tmp_path: Path) -> None:
    checkout = editable_whole(NEWEST, tmp_path / "checkout")
    file = "vllm/sampling_params.py"
    edit(checkout, file, "\nclass SamplingParams(", "\nEDITED = 1\n\n\nclass SamplingParams(")
    (checkout / "vllm/_version.py").unlink()
    for folder in ("vllm/third_party/triton_kernels", "vllm/vllm_flash_attn/cute"):
        shutil.rmtree(checkout / folder)  # made by a build
    found = base_of(f"path:{checkout}", directory=checkout, whole=True)
    assert found == BaseRelease(NEWEST, (file,), VLLM_WHOLE.kept)
    assert str(found) == f"vllm {NEWEST} with 1 file changed"
    assert found.tree.has(file)
    (one,) = edits_of(checkout_tree(str(checkout)), found)
    assert (one.file, one.function) == (file, TOP)
    assert str(base_of(f"path:{checkout}")) == f"vllm {NEWEST}{COMPARED}", "kernel cases run nothing else"
