"""A repository is the history of a checkout, asked through git; and a worktree of it, in which commits are judged."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from harness.refusal import Refusal
from harness.text import one_line

QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false")
"""A checkout of ours is none of the user's work: no hook of the repository runs."""


class GitRefused(Refusal):
    """git is missing, or does not do what is asked. The message is one line."""


class Commit(NamedTuple):
    """A commit, in words for people."""

    name: str
    date: str
    subject: str

    def __str__(self) -> str:
        return f"{self.name[:12]} {self.date} {self.subject}"


class Repository:
    """The repository that `directory` is in. Raises GitRefused if there is none."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._git("rev-parse", "--git-dir")

    def commit(self, name: str) -> str:
        """The full name of the commit that a branch, a tag or the start of a name means. Raises GitRefused."""
        return self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", what=name)

    def about(self, commit: str) -> Commit:
        date, _, subject = self._git("show", "--no-patch", "--format=%cs %s", commit).partition(" ")
        return Commit(commit, date, one_line(subject))

    def is_ancestor(self, older: str, newer: str) -> bool:
        done = self._run("merge-base", "--is-ancestor", older, newer)
        return done.returncode == 0

    def between(self, bad: str, good: Sequence[str]) -> list[str]:
        """The commits that `bad` has and none of `good` has, `bad` included, newest first."""
        return self._git("rev-list", "--topo-order", bad, "--not", *good).split()

    def by_halves(self, bad: str, good: Sequence[str]) -> list[str]:
        """The same, those first that divide the others best, as git bisect has it."""
        lines = self._git("rev-list", "--bisect-all", bad, "--not", *good).splitlines()
        return [line.split(" ", 1)[0] for line in lines]

    def tree(self, commit: str, folder: str) -> str:
        """What names the contents of a folder in a commit: equal contents have equal names. Empty if there is none."""
        done = self._run("rev-parse", "--verify", "--quiet", f"{commit}:{folder}")
        return done.stdout.strip() if done.returncode == 0 else ""

    @contextmanager
    def worktree(self) -> Iterator[Worktree]:
        """A worktree in a temporary folder, which is removed in the end, whatever happens."""
        with tempfile.TemporaryDirectory(prefix="harness-bisect-") as folder:
            place = Path(folder) / "worktree"
            self._git("worktree", "add", "--quiet", "--detach", "--no-checkout", str(place), "HEAD")
            try:
                yield Worktree(place)
            finally:
                self._run("worktree", "remove", "--force", str(place))

    def _git(self, *arguments: str, what: str = "") -> str:
        done = self._run(*arguments)
        if done.returncode != 0:
            reason = one_line(done.stderr) or (f"there is no commit {what!r}" if what else f"git {arguments[0]} failed")
            raise GitRefused(f"{self._directory}: {reason}")
        return done.stdout.strip()

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_git(self._directory, *arguments)


class Worktree:
    """A worktree of which each commit in turn is the content."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def show(self, commit: str) -> None:
        """Put the files of a commit there, and no others. Raises GitRefused."""
        for arguments in (("checkout", "--quiet", "--force", "--detach", commit), ("clean", "-ffdxq")):
            done = run_git(self.path, *arguments)
            if done.returncode != 0:
                raise GitRefused(f"{commit[:12]} cannot be checked out: {one_line(done.stderr)}")


def run_git(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in a folder. Raises GitRefused if there is no git."""
    try:
        return subprocess.run(
            ["git", "-C", str(directory), *QUIET, *arguments],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise GitRefused("git is not installed, and harness bisect asks it for the history") from error
