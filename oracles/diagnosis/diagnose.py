"""A diagnosis names the single deviations from the specification that reproduce what was found, byte for byte.

Where none does, it says so. Where deviations of several families do, all of them are named: none is the cause for sure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from harness.oracles.diagnosis.catalogue import BY_NAME, CATALOGUE
from harness.oracles.diagnosis.deviation import Form
from harness.oracles.diagnosis.prediction import is_wrong
from harness.oracles.diagnosis.situation import Situation
from harness.text import counted

UNEXPLAINED = "no known single deviation from the specification explains what was found"
MOST_NAMED = 4
"""Of more families than this, the sentence names the first ones alone."""


def deviations_of(situation: Situation, among: Collection[str] | None = None) -> tuple[Form, ...] | None:
    """The deviations that reproduce what was found, each in all its forms that do, `among` those of these names (None:
    all). None if all that can be compared is right, as where an undefined number decided an address and happened to be
    the right one."""
    if not is_wrong(situation):
        return None
    return tuple(form for one in CATALOGUE if among is None or one.name in among for form in one.reproducing(situation))


def names_of(forms: Iterable[Form]) -> tuple[str, ...]:
    """The names of deviations, each once."""
    return tuple(dict.fromkeys(form.deviation for form in forms))


def without_fitted(names: Sequence[str]) -> tuple[str, ...]:
    """Those of `names` whose numbers are not fitted to what was found; all of them if there are no others."""
    exact = tuple(name for name in names if not BY_NAME[name].loose)
    return exact or tuple(names)


def refuted_by(situation: Situation, forms: Collection[Form]) -> tuple[Form, ...]:
    """Those of `forms` that would be seen for sure in an operation that was right."""
    names = (name for name in names_of(forms) if name in BY_NAME)
    return tuple(form for name in names for form in BY_NAME[name].showing(situation, forms))


def families(names: Collection[str]) -> tuple[str, ...]:
    """The families of deviations, each once."""
    return tuple(dict.fromkeys(BY_NAME[name].family for name in names if name in BY_NAME))


def fitted_numbers(situation: Situation, names: Collection[str]) -> str:
    """The numbers that were fitted to what was found, in words, where nothing else explains it: of the first of these
    deviations."""
    known = [BY_NAME[name] for name in names if name in BY_NAME]
    return known[0].fitted(situation) if known and all(one.loose for one in known) else ""


def in_words(names: Sequence[str], cases: int = 0, fitted: str = "") -> str:
    """A sentence without a full stop that says what reproduces the finding, and `cases` more of its cases. `fitted` are
    the numbers that were fitted to it."""
    known = [BY_NAME[name] for name in names if name in BY_NAME]
    if not known:
        return UNEXPLAINED
    texts = [f"{one.words} ({one.name})" for one in known]
    what = "what was found, byte for byte" + (
        f", in {counted(cases, 'failing case')} that were looked at" if cases > 1 else ""
    )
    if all(one.loose for one in known):
        number = f" (here {fitted})" if fitted else ""
        return (
            f"as if {texts[0]}, with a number fitted to it{number}: that gives {what}; "
            "nothing known explains it without such a number"
        )
    if len(texts) == 1:
        return f"as if {texts[0]}: that reproduces {what}"
    shown = "; or ".join(f"as if {text}" for text in texts[:MOST_NAMED])
    more = len(texts) - MOST_NAMED
    rest = f"; or in {more} more ways" if more > 0 else ""
    same = " (one cause in several forms)" if len(families(names)) == 1 else ""
    return f"{shown}{rest}: each reproduces {what}{same}"
