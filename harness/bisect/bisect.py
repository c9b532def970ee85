"""Bisecting: halve what is left of the history, until one commit is, or only such that could not be judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.bisect.repository import Repository
from harness.bisect.state import Answer, Judged, State
from harness.refusal import Refusal

FOLDER = "vllm"
"""Only what is in it is judged: commits with equal contents have equal answers."""

Judge = Callable[[str], tuple[Answer, str]]
"""The answer of a commit, and why."""


class NoDifference(Refusal):
    """The file does not pass at the good commit and fail at the bad one."""


class Found(NamedTuple):
    """`first` is the commit that brought the fault. None: it is one of `left`, of which all but the last, which is bad,
    could not be judged."""

    first: str | None
    left: tuple[str, ...]


def bisect(
    repository: Repository,
    state: State,
    judge: Judge,
    save: Callable[[], None],
    say: Callable[[str], None] = lambda line: None,
) -> Found:
    """Find the commit. `save` is called after each answer. Raises NoDifference, and what `judge` raises."""
    if not repository.is_ancestor(state.good, state.bad) or state.good == state.bad:
        raise NoDifference(f"{state.good[:12]} is not a commit before {state.bad[:12]}")

    def answer_of(commit: str) -> Judged:
        known = state.of(commit)
        if known is not None:
            return known
        tree = repository.tree(commit, FOLDER)
        same = state.of_tree(tree)
        if same is not None:
            judged = Judged(commit, tree, same.answer, same.why)
        else:
            answer, why = judge(commit)
            judged = Judged(commit, tree, answer, why)
        state.judged.append(judged)
        save()
        say(f"{judged.answer:4} {repository.about(commit)}{f': {judged.why}' if judged.why else ''}")
        return judged

    for commit, wanted in ((state.bad, "bad"), (state.good, "good")):
        judged = answer_of(commit)
        if judged.answer != wanted:
            what = {"good": "the file does not fail there", "bad": "the file fails there, too"}.get(judged.answer)
            raise NoDifference(f"{commit[:12]} is not {wanted}: {what or f'it cannot be judged: {judged.why}'}")
    bad = state.bad
    while True:
        left = repository.between(bad, state.named("good"))
        if left == [bad]:
            return Found(bad, (bad,))
        skipped = set(state.named("skip"))
        chosen = next(
            (one for one in repository.by_halves(bad, state.named("good")) if one != bad and one not in skipped), None
        )
        if chosen is None:
            return Found(None, (*(one for one in left if one != bad), bad))
        if answer_of(chosen).answer == "bad":
            bad = chosen
