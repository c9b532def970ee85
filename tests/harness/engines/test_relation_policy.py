"""Which relations are checked for which case: a pure function of seed and index."""

from __future__ import annotations

from collections import Counter

from harness.engines.relations import SAMPLED_EVERY, RelationPolicy, sampled

NAMES = ("one", "two", "three")


def test_named_relations_are_checked_for_every_case_in_their_order() -> None:
    policy = RelationPolicy(NAMES)
    assert all(policy.at(0, index) == NAMES for index in range(20))
    assert policy.most is None


def test_nothing_is_checked_without_names() -> None:
    assert all(RelationPolicy().at(0, index) == () for index in range(20))


def test_sampling_checks_one_of_all_on_every_eighth_case_in_its_own_order() -> None:
    policy = sampled(NAMES)
    asked = {index: policy.at(5, index) for index in range(SAMPLED_EVERY * 90)}
    assert policy.most == 1
    assert [index for index, names in asked.items() if names] == list(
        range(SAMPLED_EVERY - 1, len(asked), SAMPLED_EVERY)
    )
    assert all(sorted(names) == sorted(NAMES) for names in asked.values() if names)
    first = Counter(names[0] for names in asked.values() if names)
    assert all(15 <= first[name] <= 45 for name in NAMES), first
    assert asked == {index: sampled(NAMES).at(5, index) for index in asked}
    assert asked != {index: policy.at(6, index) for index in asked}
