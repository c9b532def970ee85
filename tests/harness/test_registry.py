"""A registry has our objects and those of other packages, and reports in one line what is wrong with the latter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from harness.registry import Registry, found_at


@dataclass(frozen=True)
class Shape:
    name: str


class UnknownShape(ValueError):
    pass


@dataclass(frozen=True)
class EntryPoint:
    name: str
    added: Any

    def load(self) -> Any:
        return self.added


Make = Callable[..., Registry[Shape]]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """A registry of two shapes of ours, and of those that an installed package adds."""

    def make(*added: Any) -> Registry[Shape]:
        there = {"some.shapes": [EntryPoint(f"place-{i}", one) for i, one in enumerate(added)], "other": [None]}
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: there[group])
        ours = (Shape("square"), Shape("circle"))
        return Registry(Shape, "shape", "some.shapes", ours, UnknownShape)

    return make


def test_ours_come_first_and_others_after_them(make: Make) -> None:
    added = Shape("arrow")
    shapes = make(added)
    assert list(shapes.table) == ["square", "circle", "arrow"]
    assert shapes.named("arrow") is added


def test_an_unknown_name_lists_the_known_ones(make: Make) -> None:
    with pytest.raises(UnknownShape, match=r"^unknown shape 'cirlce'; did you mean 'circle'\?; known: square, circle$"):
        make().named("cirlce")


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (Shape("square"), "two shapes are called square"),
        ("square", "entry point place-0 of some.shapes is not a shape"),
        (Shape, "entry point place-0 of some.shapes is not a shape"),
    ],
)
def test_an_added_object_must_be_of_the_kind_and_have_its_own_name(make: Make, added: Any, message: str) -> None:
    with pytest.raises(UnknownShape, match=rf"^{message}$"):
        make(added).named("circle")


def test_a_place_is_imported_when_it_is_needed() -> None:
    assert found_at("harness.registry:Registry") is Registry
    with pytest.raises(AttributeError):
        found_at("harness.registry:Nothing")
