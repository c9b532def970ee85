"""Selections: version ranges among other targets in one line, and one clear line for invalid texts."""

from __future__ import annotations

import pytest
from packaging.version import Version

from harness.kernels.targets.selection import release_of, select
from harness.kernels.targets.vllm.known_releases import RELEASES
from harness.refusal import UnknownTarget


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("builtin", ["builtin"]),
        ("vllm==0.33.0", ["vllm==0.33.0"]),
        ("vllm == 0.33.0, builtin", ["vllm==0.33.0", "builtin"]),
        ("vllm==0.27.*", ["vllm==0.27.0", "vllm==0.27.1"]),
        ("vllm~=0.25.0", ["vllm==0.25.0", "vllm==0.25.1"]),
        ("builtin,vllm>=0.28,<0.30", ["builtin", "vllm==0.28.0", "vllm==0.29.0"]),
        ("vllm!=0.32.0, >0.30, <=0.33", ["vllm==0.31.0", "vllm==0.33.0"]),
        ("vllm>=0.33,<0.34+lost-reset,builtin", ["vllm==0.33.0+lost-reset", "builtin"]),
        ("builtin,builtin", ["builtin"]),
        ("vllm==0.99.0", ["vllm==0.99.0"]),  # unknown here, but the package index may have it
    ],
)
def test_targets_in_the_order_written(text: str, wanted: list[str]) -> None:
    assert list(select(text)) == wanted


def test_a_range_is_a_history() -> None:
    assert list(select("vllm>=0.22")) == [f"vllm=={release}" for release in RELEASES]
    assert [release_of(target) for target in select("vllm>=0.22")] == sorted(map(Version, RELEASES))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty list of targets"),
        (" , ", "empty list of targets"),
        ("vllm>=x", "'vllm>=x' is not a range of releases"),
        ("vllm=0.33", "'vllm=0.33' is not a range of releases"),
        ("vllm>9", "no known release of vllm is >9; known are 0.22.0 to"),
        ("builtin,nonsense", "unknown target 'nonsense'"),
        ("vllm>=0.33+no-such-fault", "no-such-fault"),
    ],
)
def test_what_cannot_be_read_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UnknownTarget, match=message) as caught:
        select(text)
    assert "\n" not in str(caught.value)


def test_only_releases_have_an_age() -> None:
    assert release_of("vllm==0.27.1+lost-reset") == Version("0.27.1")
    assert release_of("builtin") is None
    assert release_of("path:vllm==0.27.1") is None
