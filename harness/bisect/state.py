"""The state of a bisect: a file with the answers so far, from which the same command continues."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from harness.files import replace_file, text_of
from harness.refusal import Refusal

Answer = Literal["good", "bad", "skip"]


class StateRefused(Refusal):
    """A state file that cannot be continued. The message is one line."""


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of a commit; `tree` names the contents of its folder `vllm`, and `why` is the reason of a skip, or
    what failed."""

    commit: str
    tree: str
    answer: Answer
    why: str = ""


class State(msgspec.Struct, forbid_unknown_fields=True):
    """`repro` is the digest of the replayed file; `good` and `bad` are full names of commits."""

    repro: str
    good: str
    bad: str
    settings: tuple[str, ...] = ()
    judged: list[Judged] = msgspec.field(default_factory=list)
    harness_bisect: Literal[1] = 1

    def of(self, commit: str) -> Judged | None:
        return next((one for one in self.judged if one.commit == commit), None)

    def of_tree(self, tree: str) -> Judged | None:
        """The answer of a commit with the same contents."""
        return next((one for one in self.judged if tree and one.tree == tree), None)

    def named(self, answer: Answer) -> list[str]:
        return [one.commit for one in self.judged if one.answer == answer]


def continued(path: Path, new: State) -> State:
    """The state in a file, or `new` if there is none. Raises StateRefused if it is that of another bisect."""
    if not path.exists():
        return new
    try:
        old = msgspec.json.decode(text_of(path), type=State)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise StateRefused(f"{path}: not the state of a bisect: {error}") from error
    except OSError as error:
        raise StateRefused(f"{path}: cannot be read: {error.strerror or error}") from error
    wanted, found = ((one.repro, one.good, one.bad, one.settings) for one in (new, old))
    if wanted != found:
        raise StateRefused(
            f"{path}: the state of another bisect (another file, other commits or options): name another one with "
            "--state"
        )
    return old


def keep(path: Path, state: State) -> None:
    """Write it, whole or not at all. Raises OSError."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n")
