"""`harness cache`, with a synthetic wheel of vllm from a directory instead of a package index."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kernels.targets.vllm.sources import VLLM, VLLM_WHOLE, WORKER

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """Environment of a command whose only index has vllm 0.50.0, with an empty cache."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    info = "vllm-0.50.0.dist-info"
    with zipfile.ZipFile(wheels / "vllm-0.50.0-py3-none-any.whl", "w") as archive:
        for file in sorted({*VLLM.needed, *VLLM_WHOLE.needed, "vllm/model_executor/models/large.py"}):
            archive.writestr(file, "def create(): pass\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: vllm\nVersion: 0.50.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONFIG_FILE": os.devnull,
        "HARNESS_CACHE_DIR": str(tmp_path / "cache"),
        "HARNESS_OFFLINE": "",
    }


@pytest.mark.long
def test_fetch_list_clean(harness: Command, settings: dict[str, str], tmp_path: Path) -> None:
    done = harness("--offline", "cache", "fetch", "0.50.0", **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "harness: vllm 0.50.0 is not in the cache, and downloads are forbidden (--offline or HARNESS_OFFLINE)\n"
    )

    done = harness("cache", "fetch", "0.50.0", **settings)
    assert (done.returncode, done.stdout) == (0, "vllm==0.50.0 is in the cache\n"), done.stderr
    assert done.stderr.splitlines() == [
        "harness: looking for vllm 0.50.0, to download it once and keep its source files"
    ]
    done = harness("--offline", "cache", "fetch", "vllm==0.50.0", **settings)
    assert (done.returncode, done.stderr) == (0, "")

    report = json.loads(harness("cache", "list", "--json", **settings).stdout)
    (entry,) = report["releases"]
    assert (entry["version"], entry["files"], entry["sound"]) == (
        "0.50.0",
        len({*VLLM.needed, *VLLM_WHOLE.needed}),
        True,
    )
    assert len(entry["wheel_sha256"]) == 64
    (tmp_path / "cache/releases/vllm-0.50.0" / VLLM.needed[0]).write_text("changed")
    assert "damaged" in harness("cache", "list", **settings).stdout

    assert harness("cache", "clean", "0.51.0", **settings).stderr == "harness: not in the cache: vllm-0.51.0\n"
    assert harness("cache", "clean", **settings).returncode == 0
    assert json.loads(harness("cache", "list", "--json", **settings).stdout)["releases"] == []


@pytest.mark.long
def test_a_copy_to_edit(harness: Command, settings: dict[str, str], tmp_path: Path) -> None:
    """All Python files of a release in a new folder, or nothing: never among files that are there already."""
    folder = tmp_path / "my vllm"
    done = harness("cache", "copy", "0.50.0", str(folder), **settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"the Python files of vllm 0.50.0 are in {folder}",
        f"next harness run --target 'path:{folder}' --fail-fast",
    ]
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert files == {*VLLM_WHOLE.needed, *VLLM.needed, "vllm/model_executor/models/large.py"}

    (folder / WORKER).write_text("edited")
    done = harness("cache", "copy", "vllm==0.50.0", str(folder), **settings)
    assert (done.returncode, done.stderr) == (2, f"harness: {folder}: Directory not empty\n")
    assert (folder / WORKER).read_text() == "edited"
    done = harness("cache", "copy", "vllm>=0.30", str(tmp_path / "other"), **settings)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "other").exists()


@pytest.mark.long
def test_fetch_whole(harness: Command, settings: dict[str, str]) -> None:
    """What step sequences need can be fetched before they run."""
    assert harness("cache", "fetch", "0.50.0", "--whole", **settings).returncode == 0
    report = json.loads(harness("cache", "list", "--json", **settings).stdout)
    assert [entry["name"] for entry in report["releases"]] == ["vllm-whole-0.50.0"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("vllm==0.51.0", "vllm 0.51.0 was never released, or has no wheel; there are 0.50.0"),
        ("vllm==0.50.0", "vllm 0.50.0 has no MambaSpecDecodeGPUContext in vllm/v1/worker/mamba_utils.py"),
        ("vllm==newest", "'newest' is not a version of vllm"),
        ("path:nowhere", "path:nowhere: there is no such directory"),
        ("path:wheels", "path:wheels is not a checkout of vLLM: it has no vllm/v1/worker/mamba_utils.py"),
    ],
)
def test_an_unavailable_target_is_one_line(
    harness: Command, settings: dict[str, str], target: str, message: str
) -> None:
    done = harness("run", "--target", target, "--cases", 1, **settings)
    assert done.returncode == 2
    # A release that is newer than those known is compared with the newest of them, which may not be there either.
    notices = ("looking for", "to compare with")
    lines = [line for line in done.stderr.splitlines() if not any(notice in line for notice in notices)]
    assert len(lines) == 1
    assert message in lines[0]
    assert done.stdout == ""


@pytest.mark.parametrize("damage", ["no network", "broken wheel", "yanked"])
def test_a_release_that_cannot_be_fetched_is_one_line(
    harness: Command, settings: dict[str, str], tmp_path: Path, damage: str
) -> None:
    wheel = next((tmp_path / "wheels").glob("*.whl"))
    message = "vllm 0.50.0"
    if damage == "no network":
        wheel.unlink()
        message = "vllm 0.50.0 is not in the cache, and no package index could be reached"
    elif damage == "broken wheel":
        wheel.write_bytes(wheel.read_bytes()[:200])
    else:
        page = tmp_path / "index.html"
        page.write_text(f'<!DOCTYPE html><a href="{wheel.as_uri()}" data-yanked="wrong tables">{wheel.name}</a>')
        settings["PIP_FIND_LINKS"] = page.as_uri()
        message = "vllm 0.50.0 was withdrawn by its publisher: wrong tables"
    done = harness("run", "--target", "vllm==0.50.0", "--cases", 1, **settings)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = [line for line in done.stderr.splitlines() if "looking for" not in line]
    assert message in line
    assert not [path for path in (tmp_path / "cache/releases").glob("*") if path.is_dir()]
