"""A campaign has the same findings in whatever way it is run: `same_findings` in small form."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.harness.campaign.same_findings import KERNELS, SEQUENCES, WAYS, Side, differences, same

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize(
    ("side", "count"), [(KERNELS, 300), (SEQUENCES, 60)], ids=lambda one: getattr(one, "noun", None)
)
def test_all_ways_leave_the_same(side: Side, count: int, tmp_path: Path) -> None:
    """But for the cluster, for which test_on_ray has a test of its own."""
    assert same(side, count, 3, [name for name in WAYS if name != "cluster"], tmp_path)


def test_what_differs_is_named() -> None:
    one = {"a": [1, {"b": 2}], "c": None}
    assert list(differences(one, {"a": [1, {"b": 2}]})) == []
    assert list(differences(one, {"a": [1, {"b": 3}], "c": [4]})) == ["/a/1/b: 2 and 3", "/c: null and [4]"]
    assert list(differences(one, {"a": [1]})) == ['/a: [1, {"b": 2}] and [1]']
