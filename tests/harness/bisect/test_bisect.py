"""The commit that brought a fault: the search, its state, and replays of a history with a fault in it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.bisect.bisect import Found, NoDifference, bisect
from harness.bisect.repository import GitRefused, Repository
from harness.bisect.state import Answer, Judged, State, StateRefused, continued, keep
from harness.kernels.mutations.mutation import mutate
from harness.kernels.mutations.registry import mutation
from harness.kernels.targets.vllm.sources import HYBRID, LAYERS, MATH, WORKER
from tests.harness.conftest import Command
from tests.releases import sources

CORPUS = Path(__file__).resolve().parents[3] / "corpus"


def git(folder: Path, *arguments: str) -> str:
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", "-C", folder, *author, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


class History:
    """A repository in which each commit has a number in `vllm/number`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "vllm").mkdir(parents=True)
        git(folder, "init", "--quiet")
        self.commits: list[str] = []

    def add(self, number: int, message: str = "a change") -> str:
        (self.folder / "vllm" / "number").write_text(str(number))
        return self.commit(message)

    def commit(self, message: str) -> str:
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "--allow-empty", "-m", message)
        self.commits.append(git(self.folder, "rev-parse", "HEAD"))
        return self.commits[-1]


@pytest.fixture
def history(tmp_path: Path) -> History:
    made = History(tmp_path / "repository")
    for number in range(12):
        made.add(number, f"change {number}")
    return made


def search(history: History, answer: Callable[[int], Answer], state: State | None = None) -> tuple[Found, list[int]]:
    """Where the answer changes, and which numbers were asked for."""
    repository = Repository(history.folder)
    asked = []

    def judge(commit: str) -> tuple[Answer, str]:
        asked.append(int(git(history.folder, "show", f"{commit}:vllm/number")))
        return answer(asked[-1]), "a reason"

    state = state or State("file", history.commits[0], history.commits[-1])
    return bisect(repository, state, judge, lambda: None), asked


@pytest.mark.parametrize("first", range(1, 12))
def test_the_first_bad_commit_is_found_by_halves(history: History, first: int) -> None:
    found, asked = search(history, lambda number: "bad" if number >= first else "good")
    assert found.first == history.commits[first]
    assert len(asked) <= 2 + 4


def test_commits_that_cannot_be_judged_are_left_out(history: History) -> None:
    found, _ = search(history, lambda number: "skip" if number in (5, 6) else "bad" if number >= 4 else "good")
    assert found == Found(history.commits[4], (history.commits[4],))


def test_where_nothing_else_is_left_the_answer_is_one_of_several(history: History) -> None:
    found, _ = search(history, lambda number: "skip" if 4 <= number < 7 else "bad" if number >= 7 else "good")
    assert found.first is None
    assert sorted(found.left) == sorted(history.commits[4:8])
    assert found.left[-1] == history.commits[7]


def test_equal_contents_are_judged_once(tmp_path: Path) -> None:
    history = History(tmp_path)
    for number in (0, 0, 0, 1, 1, 1, 1, 1):
        (tmp_path / "readme").write_text(str(len(history.commits)))
        history.add(number)
    found, asked = search(history, lambda number: "bad" if number else "good")
    assert found.first == history.commits[3]
    assert sorted(asked) == [0, 1]


def test_a_side_branch_is_searched_too(history: History) -> None:
    main = git(history.folder, "rev-parse", "--abbrev-ref", "HEAD")
    git(history.folder, "checkout", "--quiet", "-b", "side", history.commits[2])
    (history.folder / "vllm" / "fault").write_text("x")
    brought = history.commit("the fault")
    git(history.folder, "checkout", "--quiet", main)
    git(history.folder, "merge", "--quiet", "--no-edit", "side")
    repository = Repository(history.folder)

    def judge(commit: str) -> tuple[Answer, str]:
        return ("bad" if repository.tree(commit, "vllm/fault") else "good"), ""

    state = State("file", history.commits[0], repository.commit("HEAD"))
    assert bisect(repository, state, judge, lambda: None).first == brought


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("good", "is not bad: the file does not fail there"),
        ("bad", "is not good: the file fails there, too"),
        ("skip", "is not bad: it cannot be judged: a reason"),
    ],
)
def test_the_ends_are_looked_at_first(history: History, answer: Answer, words: str) -> None:
    with pytest.raises(NoDifference, match=words):
        search(history, lambda number: answer)


def test_the_good_commit_has_to_be_the_older_one(history: History) -> None:
    state = State("file", history.commits[3], history.commits[1])
    with pytest.raises(NoDifference, match="is not a commit before"):
        search(history, lambda number: "bad", state)


def test_a_state_continues_where_it_ended(history: History, tmp_path: Path) -> None:
    new = State("file", history.commits[0], history.commits[-1])
    _, asked = search(history, lambda number: "bad" if number >= 7 else "good", new)
    path = tmp_path / "state.json"
    keep(path, new)
    known = continued(path, State("file", history.commits[0], history.commits[-1]))
    assert known == new
    del known.judged[3:]
    _, again = search(history, lambda number: "bad" if number >= 7 else "good", known)
    assert again == asked[3:]


def test_the_state_of_another_bisect_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    keep(path, State("file", "1", "2", judged=[Judged("1", "", "good")]))
    for other in (State("another", "1", "2"), State("file", "0", "2"), State("file", "1", "2", ("executor cuda",))):
        with pytest.raises(StateRefused, match="the state of another bisect"):
            continued(path, other)
    path.write_text("[]")
    with pytest.raises(StateRefused, match="not the state of a bisect"):
        continued(path, State("file", "1", "2"))


def test_a_worktree_has_each_commit_and_is_removed(history: History) -> None:
    repository = Repository(history.folder)
    hook = history.folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {history.folder}/ran\n")
    hook.chmod(0o755)
    with repository.worktree() as worktree:
        for number in (3, 8):
            worktree.show(history.commits[number])
            assert (worktree.path / "vllm" / "number").read_text() == str(number)
            (worktree.path / "left over").write_text("")
        assert not (history.folder / "ran").exists()
        worktree.show(history.commits[1])
        assert sorted(path.name for path in worktree.path.iterdir()) == [".git", "vllm"]
    assert not worktree.path.exists()
    assert git(history.folder, "worktree", "list").count("\n") == 0


def test_what_is_no_repository_or_no_commit_is_refused(history: History, tmp_path: Path) -> None:
    with pytest.raises(GitRefused, match="not a git repository"):
        Repository(tmp_path)
    for name in ("nothing", "--all", "HEAD~100"):
        with pytest.raises(GitRefused, match="there is no commit"):
            Repository(history.folder).commit(name)


@pytest.mark.slow
@pytest.mark.release
def test_a_planted_fault_is_found_in_a_history_of_a_release(tmp_path: Path, command: Command) -> None:
    """Six commits: three of them without a fault, one that does not load, the fault, and one more."""
    checkout = tmp_path / "checkout"
    shutil.copytree(sources("0.33.0") / "vllm", checkout / "vllm")
    history = History.__new__(History)
    history.folder, history.commits = checkout, []
    git(checkout, "init", "--quiet")
    worker = checkout / WORKER
    right = worker.read_text()
    history.commit("as released")
    worker.write_text(f"{right}\n# more\n")
    history.commit("a comment")
    worker.write_text(f"{right}\n(\n")
    history.commit("does not load")
    texts = {file: (checkout / file).read_text() for file in (MATH, LAYERS, WORKER, HYBRID)}
    faulty = mutate("vllm", {**texts, WORKER: right}, [mutation("stale-accept")])
    worker.write_text(faulty[WORKER])
    brought = history.commit("an innocent change")
    worker.write_text(f"{faulty[WORKER]}\n# more\n")
    history.commit("another comment")
    file, state = CORPUS / "v2-accepted-race-temporal.json", tmp_path / "state.json"
    arguments = ("bisect", file, f"path:{checkout}", history.commits[0], "HEAD", "--state", state, "--base", "0.33.0")
    status, out, err = command(*arguments, "--json")
    assert status in (0, 3), err
    result = json.loads(out)
    answers = {one["commit"]: one["answer"] for one in result["judged"]}
    assert answers[history.commits[2]] == "skip"
    assert result["first"] is None
    assert result["left"] == [history.commits[2], brought]
    status, again, _ = command(*arguments)
    assert status == 3
    assert "an innocent change" in again
    assert "not judged: " in again
    worker.write_text(right)
    mended = history.commit("mended")
    worker.write_text(f"{right}\n# other\n")
    history.commit("a third comment")
    worker.write_text(faulty[WORKER])
    back = history.commit("the fault is back")
    status, out, _ = command("bisect", file, f"path:{checkout}", mended, back, "--state", tmp_path / "second.json")
    assert (status, out) == (0, f"first commit that fails: {Repository(checkout).about(back)}\n")
    assert git(checkout, "worktree", "list").count("\n") == 0
