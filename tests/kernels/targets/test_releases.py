"""The release cache, fed with synthetic wheels from a directory instead of a package index."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from harness.kernels import cache_directory
from harness.kernels.targets import downloading, releases
from harness.kernels.targets.downloading import explain
from harness.kernels.targets.releases import Package, cached, release, remove
from harness.kernels.targets.releases import entries as cache_entries
from harness.refusal import UnknownTarget

ROOT = Path(__file__).parents[3]
SAMPLE = Package("harness-sample", kept=("sample/kernels/", "sample/math.py"), needed=("sample/kernels/copy.py",))
FILES = {
    "sample/__init__.py": b"",
    "sample/math.py": b"PI = 3\n",
    "sample/kernels/copy.py": b"def copy(): pass\n",
    "sample/kernels/copy.so": b"\0",
    "sample/models/large.py": b"x = 1\n",
}


def build_wheel(directory: Path, version: str, files: dict[str, bytes]) -> Path:
    info = f"harness_sample-{version}.dist-info"
    wheel = directory / f"harness_sample-{version}-py3-none-any.whl"
    directory.mkdir(exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: harness-sample\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with version 1.0, the only place where pip looks; and an empty cache."""
    directory = tmp_path / "wheels"
    build_wheel(directory, "1.0", FILES)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv(releases.OFFLINE_VARIABLE, raising=False)
    monkeypatch.setenv(cache_directory.ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    return directory


def entries(tmp_path: Path) -> list[str]:
    """Everything in the cache of releases, including lock files: none may be left."""
    folder = tmp_path / "cache" / "releases"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_keeps_the_files_that_matter_and_no_wheel(wheels: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    found = release(SAMPLE, "1.0", lines.append)
    assert set(found.manifest.files) == {"sample/math.py", "sample/kernels/copy.py"}
    assert (found.directory / "sample/kernels/copy.py").read_bytes() == FILES["sample/kernels/copy.py"]
    wheel = next(wheels.glob("*.whl"))
    assert found.manifest.wheel.file == wheel.name
    assert found.manifest.wheel.sha256 == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert entries(tmp_path) == ["harness-sample-1.0"]
    assert not list(found.directory.rglob("*.whl"))
    assert lines == ["looking for harness-sample 1.0, to download it once and keep its source files"]


def test_offline_uses_the_cache_and_nothing_else(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(releases.OFFLINE_VARIABLE, "1")
    with pytest.raises(
        UnknownTarget, match=r"1\.0 is not in the cache, and downloads are forbidden \(--offline or HAR"
    ):
        release(SAMPLE, "1.0")
    assert entries(tmp_path) == []
    monkeypatch.setenv(releases.OFFLINE_VARIABLE, "0")
    release(SAMPLE, "1.0")
    monkeypatch.setenv(releases.OFFLINE_VARIABLE, "1")
    assert release(SAMPLE, "1.0").manifest.version == "1.0"


@pytest.mark.parametrize("damage", ["changed file", "missing file", "half a manifest", "no manifest"])
def test_a_damaged_entry_is_fetched_again(wheels: Path, tmp_path: Path, damage: str) -> None:
    directory = release(SAMPLE, "1.0").directory
    file, manifest = directory / "sample/math.py", directory / releases.MANIFEST
    if damage == "changed file":
        file.write_bytes(b"PI = 4\n")
    elif damage == "missing file":
        file.unlink()
    elif damage == "half a manifest":
        manifest.write_bytes(manifest.read_bytes()[:40])
    else:
        manifest.unlink()
    assert cached(SAMPLE, "1.0") is None
    assert (release(SAMPLE, "1.0").directory / "sample/math.py").read_bytes() == b"PI = 3\n"
    assert entries(tmp_path) == ["harness-sample-1.0"]


def test_a_version_that_does_not_exist_is_refused_with_those_that_do(wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UnknownTarget, match=r"harness-sample 2\.0 was never released, or has no wheel; there are 1\.0$"
    ):
        release(SAMPLE, "2.0")
    assert entries(tmp_path) == []


def test_no_index_at_all(wheels: Path, tmp_path: Path) -> None:
    next(wheels.glob("*.whl")).unlink()
    with pytest.raises(UnknownTarget, match=r"1\.0 is not in the cache, and no package index could be reached"):
        release(SAMPLE, "1.0")
    assert entries(tmp_path) == []


def test_no_pip_at_all(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "package_installer", lambda: None)
    with pytest.raises(UnknownTarget, match=r"this Python has no pip to get it with; `python -m ensurepip` or `uv pip"):
        release(SAMPLE, "1.0")
    assert entries(tmp_path) == []


def test_the_output_of_pip_may_be_in_any_encoding(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").write_text("")
    (tmp_path / "pip" / "__main__.py").write_text(
        "import sys; sys.stderr.buffer.write(b'ERROR: kein Platz f\\xfcr \\xe2\\x82\\xac\\n'); sys.exit(1)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UnknownTarget, match=r"pip says: kein Platz f\ufffdr \u20ac$"):
        release(SAMPLE, "1.0")


def test_a_wheel_without_the_needed_file(wheels: Path, tmp_path: Path) -> None:
    build_wheel(wheels, "0.9", {"sample/math.py": b""})
    with pytest.raises(UnknownTarget, match=r"0\.9 cannot be a target: its wheel has no sample/kernels/copy\.py"):
        release(SAMPLE, "0.9")
    assert entries(tmp_path) == []


def test_a_full_disk(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UnknownTarget, match=r"^harness-sample 1\.0: the disk of the cache directory .* is full$"):
        release(SAMPLE, "1.0")
    assert entries(tmp_path) == []


def test_an_interrupted_download_leaves_nothing(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(releases, "_unpack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            release(SAMPLE, "1.0")
    assert entries(tmp_path) == []


def test_what_a_killed_process_left_is_removed(wheels: Path, tmp_path: Path) -> None:
    leftover = tmp_path / "cache" / "releases" / ".harness-sample-1.0-killed"
    leftover.mkdir(parents=True)
    (leftover / "half.whl").write_bytes(b"PK")
    release(SAMPLE, "1.0")
    assert entries(tmp_path) == ["harness-sample-1.0"]


def test_two_processes_share_one_download(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each pip waits, so that the second process certainly starts while the first one downloads.
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(
        "import sys, time\nif 'download' in sys.orig_argv:\n    time.sleep(2)\n", encoding="utf-8"
    )
    program = (
        "from pathlib import Path\n"
        "from harness.kernels.targets.releases import Package, release\n"
        f"release({SAMPLE!r}, '1.0', print)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{slow}"}
    processes = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    lines = [process.communicate(timeout=1800)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert "".join(lines).count("looking for") == 1
    assert entries(tmp_path) == ["harness-sample-1.0"]


@pytest.mark.parametrize("version", ["", "1.0/../../x", "1.0 ", "latest", "-1", "1..0"])
def test_an_invalid_version_never_becomes_a_path(version: str) -> None:
    with pytest.raises(UnknownTarget, match="is not a version of harness-sample"):
        release(SAMPLE, version)


def test_errors_do_not_name_package_hosts() -> None:
    output = "ERROR: HTTPSConnectionPool(host='files.example.org'): GET https://user:pw@files.example.org/x.whl failed"
    line = explain("harness-sample 1.0", output)
    assert "example" not in line
    assert "pw" not in line
    assert line.startswith("harness-sample 1.0 could not be downloaded; pip says: ")


def test_a_broken_wheel(wheels: Path, tmp_path: Path) -> None:
    (wheels / "harness_sample-0.8-py3-none-any.whl").write_bytes(b"PK\x03\x04 and then nothing of the kind")
    with pytest.raises(UnknownTarget, match=r"harness-sample 0\.8") as caught:
        release(SAMPLE, "0.8")
    assert "\n" not in str(caught.value)
    assert entries(tmp_path) == []


def test_a_wheel_cut_short(wheels: Path, tmp_path: Path) -> None:
    wheel = build_wheel(wheels, "0.7", FILES)
    wheel.write_bytes(wheel.read_bytes()[:-40])
    with pytest.raises(UnknownTarget, match=r"harness-sample 0\.7") as caught:
        release(SAMPLE, "0.7")
    assert "\n" not in str(caught.value)


def test_a_withdrawn_release_is_refused_with_the_reason(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = build_wheel(wheels, "0.6", FILES)
    page = tmp_path / "index.html"
    page.write_text(f'<!DOCTYPE html><a href="{wheel.as_uri()}" data-yanked="wrong tables">{wheel.name}</a>')
    monkeypatch.setenv("PIP_FIND_LINKS", page.as_uri())
    with pytest.raises(UnknownTarget, match=r"^harness-sample 0\.6 was withdrawn by its publisher: wrong tables$"):
        release(SAMPLE, "0.6")
    assert entries(tmp_path) == []


def test_progress_ends_at_the_whole(wheels: Path, tmp_path: Path) -> None:
    class Listener:
        def __init__(self) -> None:
            self.seen: list[tuple[int, int | None]] = []

        def __call__(self, text: str) -> None:
            pass

        def progress(self, done: int, total: int | None) -> None:
            self.seen.append((done, total))

    listener = Listener()
    release(SAMPLE, "1.0", listener)
    done, total = listener.seen[-1]
    assert done == total == next(wheels.glob("*.whl")).stat().st_size
    assert [seen for seen, _ in listener.seen] == sorted(seen for seen, _ in listener.seen)


def test_entries_are_sound_or_damaged(wheels: Path, tmp_path: Path) -> None:
    directory = release(SAMPLE, "1.0").directory
    (entry,) = cache_entries()
    assert (entry.name, entry.sound) == ("harness-sample-1.0", True)
    assert entry.size == sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    (directory / "sample/math.py").write_bytes(b"PI = 4\n")
    assert [entry.sound for entry in cache_entries()] == [False]
    (directory / releases.MANIFEST).write_bytes(b"{")
    assert [(entry.manifest, entry.sound) for entry in cache_entries()] == [(None, False)]
    remove("harness-sample-1.0")
    remove("harness-sample-1.0")
    assert list(cache_entries()) == []


@pytest.mark.parametrize("name", ["..", "../outside", "", "."])
def test_nothing_outside_the_cache_is_removed(wheels: Path, tmp_path: Path, name: str) -> None:
    release(SAMPLE, "1.0")
    (tmp_path / "cache" / "outside").mkdir()
    remove(name)
    assert entries(tmp_path) == ["harness-sample-1.0"]
    assert (tmp_path / "cache" / "outside").is_dir()


def test_a_process_that_waited_on_a_removed_lock_takes_the_new_one(tmp_path: Path) -> None:
    """Otherwise two would hold it: one the file that was removed, the other the one that was created since."""
    directory, order = tmp_path / "entry", []
    inside, go_on = threading.Event(), threading.Event()

    def hold(name: str) -> None:
        with releases.locked(directory):
            order.append(f"{name} in")
            inside.set()
            go_on.wait(10)
            order.append(f"{name} out")

    threads = [threading.Thread(target=hold, args=(name,)) for name in "abc"]
    threads[0].start()
    assert inside.wait(10)
    for thread in threads[1:]:
        thread.start()
    time.sleep(0.2)
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert len(order) == 6
    assert all(order[i][0] == order[i + 1][0] for i in (0, 2, 4)), order
    assert list(tmp_path.iterdir()) == []


def test_a_download_is_announced_with_its_size_once_it_has_begun(tmp_path: Path) -> None:
    lines: list[str] = []
    program = "import time; print('  Downloading x.whl (340.5 MB)', flush=True); time.sleep(0.6)"
    status, _ = downloading._run([sys.executable, "-c", program], tmp_path, "sample 1.0", lines.append, None)
    assert (status, lines) == (0, ["downloading sample 1.0, 340 MB"])
