"""Rewriting functions of a release: only the replaced text differs."""

from __future__ import annotations

import pytest

from harness.kernels.targets.vllm.scheduling.rewriting import rewritten

WORD = "a global of this module"


class Holder:
    def count_text(self, count: int = 2) -> str:
        more = count + 1
        return f"{more} of {WORD}"


def test_a_rewritten_function_differs_only_in_the_replaced_text() -> None:
    made = rewritten(Holder.count_text, (("count + 1", "count + 10"), ("{more} of", "{more} times")))
    assert made is not None
    assert made(Holder()) == "12 times a global of this module"
    assert made(Holder(), count=5) == "15 times a global of this module"
    assert Holder().count_text() == "3 of a global of this module", "production's own stays as it is"


@pytest.mark.parametrize("exchange", [("count + 2", "0"), ("more", "less")], ids=["absent", "twice"])
def test_words_that_are_not_there_just_once_rewrite_nothing(exchange: tuple[str, str]) -> None:
    assert rewritten(Holder.count_text, (exchange,)) is None
    assert rewritten(Holder.count_text, (("count + 1", "0"), exchange)) is None


def test_what_was_rewritten_can_be_rewritten_again() -> None:
    once = rewritten(Holder.count_text, (("count + 1", "count + 10"),))
    twice = rewritten(once, (("count + 10", "count + 20"),))
    assert twice is not None
    assert twice(Holder()) == "22 of a global of this module"
    assert rewritten(once, (("count + 1 ", ""),)) is None
