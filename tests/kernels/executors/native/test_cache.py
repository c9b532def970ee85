"""The variant cache on disk: entries are complete or absent, damage is noticed, and it may be missing."""

from __future__ import annotations

import multiprocessing
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.kernels.executors.native import cache as cache_module
from harness.kernels.executors.native import variant as variant_module
from harness.kernels.executors.native.accesses import AccessSite
from harness.kernels.executors.native.cache import CompiledVariant, VariantCache
from harness.kernels.executors.native.source_lines import SourceLine

LINE = SourceLine("file.py", "kernel", 7)
VARIANT = CompiledVariant(b"\x00\xffobject", 3, (AccessSite(LINE, True, 8), AccessSite(None, False, 1)), ((LINE,), ()))


def run_kernel(make_bench: Callable[..., Any], directory: Path | None) -> Any:
    bench = make_bench(cache=directory)
    target = bench.put([0] * 4, torch.int32)
    bench.kernels.write_at[(1,)](target, 0)
    assert target.tolist() == [1, 2, 3, 4]
    return bench


def entries(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.variant"))


@pytest.fixture
def no_compiling(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def refuse(*_: Any) -> None:
        raise AssertionError("compiled although a cached variant was there")

    return lambda: monkeypatch.setattr(variant_module, "translate", refuse)


def test_an_entry_comes_back_as_it_was_written(tmp_path: Path) -> None:
    cache = VariantCache(tmp_path)
    assert cache.read("k") is None
    cache.write("k", VARIANT)
    assert VariantCache(tmp_path).read("k") == VARIANT
    assert [path.name for path in tmp_path.iterdir()] == ["k.variant"]


def test_a_second_executor_does_not_compile(
    make_bench: Callable[..., Any], tmp_path: Path, no_compiling: Callable[[], None]
) -> None:
    first = run_kernel(make_bench, tmp_path)
    assert len(entries(tmp_path)) == 1
    no_compiling()
    second = run_kernel(make_bench, tmp_path)
    assert second.executor.known_lines() == first.executor.known_lines() != set()


def test_options_and_constants_have_separate_entries(make_bench: Callable[..., Any], tmp_path: Path) -> None:
    run_kernel(make_bench, tmp_path)
    bench = make_bench(cache=tmp_path, checks=False)
    target = bench.put([0] * 4, torch.int32)
    bench.kernels.write_at[(1,)](target, 0)
    bench.kernels.write_at[(1,)](target.view(torch.int16), 0)
    assert len(entries(tmp_path)) == 3


@pytest.mark.parametrize("damage", ["flipped", "truncated", "empty"])
def test_damage_is_noticed_and_compiled_again(make_bench: Callable[..., Any], tmp_path: Path, damage: str) -> None:
    run_kernel(make_bench, tmp_path)
    (path,) = entries(tmp_path)
    content = bytearray(path.read_bytes())
    whole = bytes(content)
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    path.write_bytes({"flipped": bytes(content), "truncated": whole[:-9], "empty": b""}[damage])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_kernel(make_bench, tmp_path)
    assert len([warning for warning in caught if "damaged" in str(warning.message)]) == 1
    assert path.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_not_needed(make_bench: Callable[..., Any], tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bench = run_kernel(make_bench, blocked / "cache")
        target = bench.put([0] * 4, torch.int64)
        bench.kernels.write_at[(1,)](target, 0)
    assert target.tolist() == [1, 2, 3, 4]
    assert len([warning for warning in caught if "are not kept" in str(warning.message)]) == 1


def test_a_full_disk_leaves_no_half_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    cache = VariantCache(tmp_path)
    monkeypatch.setattr(cache_module.os, "replace", full)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cache.write("k", VARIANT)
        cache.write("l", VARIANT)
    assert list(tmp_path.iterdir()) == []
    (warning,) = caught
    assert "No space left" in str(warning.message)


def test_no_cache_at_all(make_bench: Callable[..., Any], tmp_path: Path) -> None:
    run_kernel(make_bench, None)
    assert list(tmp_path.iterdir()) == []


def test_old_entries_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "ENTRY_LIMIT", 4)
    cache = VariantCache(tmp_path)
    for number in range(8):
        cache.write(str(number), VARIANT)
    VariantCache(tmp_path).write("new", VARIANT)
    assert len(entries(tmp_path)) == 3
    assert (tmp_path / "new.variant").exists()


def write_often(directory: str, worker: int) -> None:
    cache = VariantCache(Path(directory))
    for number in range(200):
        cache.write("shared", CompiledVariant(bytes([worker]) * (1000 + number), worker, (), ()))


def test_readers_never_see_half_an_entry(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_often, args=(str(tmp_path), worker)) for worker in (1, 2)]
    for writer in writers:
        writer.start()
    cache = VariantCache(tmp_path)
    seen = 0
    while any(writer.is_alive() for writer in writers):
        variant = cache.read("shared")
        if variant is not None:
            seen += 1
            assert set(variant.object) == {variant.arguments}
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert seen > 0
    assert caplog.records == []
    shutil.rmtree(tmp_path)
