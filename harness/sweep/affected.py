"""Which targets a finding affects, as text: ranges of releases, and the answer of each target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from packaging.version import Version

from harness.kernels.targets.selection import release_of
from harness.kernels.targets.vllm.known_releases import RELEASES

SweepAnswer = Literal["FAILED", "FIXED", "NOT APPLICABLE", "LOST", "ERROR", "NOT ASKED"]
"""LOST: a checkout lacks what its base release has, so nothing of it was judged. NOT ASKED: the sweep was interrupted
before."""


class TargetAnswer(msgspec.Struct, frozen=True):
    """The answer of one target. `same`: a failure has the recorded signature; `detail` says why in one line."""

    target: str
    answer: SweepAnswer
    same: bool
    signature: str | None
    detail: str
    status: int
    """The answer as an exit status: 0 fixed, 1 failed, 2 no such target, 3 not applicable or lost, 4 the harness
    failed."""
    variation: str | None = None
    """What was changed in the file so that it failed; None: nothing was."""
    varied: int | None = None
    """How many variations of the file were judged as well; None: such files have none."""
    settings: tuple[str, ...] | None = None
    """Of a failure, the settings that differ from the target's defaults; None: not known, or there are no settings."""


NOT_AFFECTED = "NOT AFFECTED"
PASSES = "PASSES"
"""The word for a pass that says nothing of a release: these very events do not fail there."""


def in_words(answer: TargetAnswer, answers: Sequence[TargetAnswer]) -> str:
    """An answer as text for people: a target that passes was never affected (NOT AFFECTED), or is right again (FIXED).

    It was affected if an older release among those asked fails. A pass of a file that might fail there in another form,
    of which none was tried, says less: PASSES. `--json` has FIXED for all of them: the verdict is the same.
    """
    if answer.answer != "FIXED":
        return answer.answer
    if answer.varied == 0:
        return PASSES
    release = release_of(answer.target)
    failed = [release_of(other.target) for other in answers if other.answer == "FAILED"]
    older = release is not None and any(other is not None and other < release for other in failed)
    return "FIXED" if older else NOT_AFFECTED


def affected_range(answers: Sequence[TargetAnswer]) -> str:
    """Which targets a finding affects, in one sentence: releases of vLLM as ranges, others by name."""
    failed = [answer for answer in answers if answer.answer == "FAILED"]
    applicable = [answer for answer in answers if answer.answer in ("FAILED", "FIXED")]
    parts = [_affected(answers, failed, applicable)]
    absent = _named(answers, "NOT APPLICABLE")
    if absent and applicable:
        parts.append(f"not applicable to {absent}")
    lost = _named(answers, "LOST")
    if lost:
        parts.append(f"not judged in {lost}, which has lost what the file is about")
    unasked = _named(answers, "NOT ASKED")
    if unasked:
        parts.append(f"not asked of {unasked}")
    unknown = _named(answers, "ERROR")
    if unknown:
        parts.append(f"unknown for {unknown}")
    return "; ".join(parts) + "."


def _affected(
    answers: Sequence[TargetAnswer], failed: Sequence[TargetAnswer], applicable: Sequence[TargetAnswer]
) -> str:
    if not applicable:
        words = {answer.answer for answer in answers}
        absent = "NOT APPLICABLE" in words and "NOT ASKED" not in words
        return "Applies to none of the targets" if absent else "Not known"
    if not failed and any(answer.varied == 0 for answer in applicable):
        return f"These events do not fail on {_named(answers, 'FIXED')}"
    if not failed:
        if len(applicable) == 1:
            return f"Does not affect {applicable[0].target}, the one target that it applies to"
        return f"Affects none of the {len(applicable)} targets that it applies to"
    text = f"Affects {_named(answers, 'FAILED')}"
    varied = [answer.target for answer in failed if answer.variation is not None]
    if varied:
        text += f" (in another form on {', '.join(varied)})"
    others = [answer for answer in failed if not answer.same]
    if others and len(others) < len(failed):
        text += f" (with another signature on {', '.join(answer.target for answer in others)})"
    elif others:
        text += " (with another signature)"
    newest_failed = max((r for a in failed if (r := release_of(a.target))), default=None)
    later = [r for a in applicable if a.answer == "FIXED" and (r := release_of(a.target)) is not None]
    since = min((release for release in later if newest_failed is not None and release > newest_failed), default=None)
    if since is not None and newest_failed is not None:
        asked = {release_of(answer.target) for answer in answers if answer.answer != "NOT ASKED"}
        between = [release for release in map(Version, RELEASES) if newest_failed < release < since]
        unasked = not asked.issuperset(between)
        if any(answer.varied == 0 for answer in applicable):
            return f"{text}; these events do not fail on {_named(answers, 'FIXED')}"
        text += f", not {since} (not all in between were asked)" if unasked else f", fixed in {since}"
    return text


def _named(answers: Sequence[TargetAnswer], wanted: SweepAnswer) -> str:
    """Targets with an answer: runs of consecutive releases among those asked, then other targets by name."""
    releases = sorted(
        (
            (release, answer.answer == wanted)
            for answer in answers
            if (release := release_of(answer.target)) is not None
        ),
        key=lambda item: item[0],
    )
    runs: list[list[str]] = []
    previous = False
    for release, here in releases:
        if here and previous:
            runs[-1].append(str(release))
        elif here:
            runs.append([str(release)])
        previous = here
    texts = [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    named = [f"vllm {' and '.join(texts) if len(texts) < 3 else ', '.join(texts)}"] if texts else []
    named += [answer.target for answer in answers if release_of(answer.target) is None and answer.answer == wanted]
    return ", ".join(named)


def with_default_runner(answers: Sequence[TargetAnswer]) -> str:
    """The targets that fail on the runner that they choose if nothing is set; `-` if none does."""
    found = [one for one in answers if one.settings is not None and not any(" runner" in text for text in one.settings)]
    return _named(found, "FAILED") or "-"


def at_default_options(answers: Sequence[TargetAnswer]) -> str:
    """The targets that fail with all options at their defaults; `-` if none does."""
    return _named([one for one in answers if one.settings == ()], "FAILED") or "-"
