"""Files that a command reads may be anything: each is refused in a clear line, or is what it says, in bounded time and
memory, and nothing outside its folder is opened."""

from __future__ import annotations

import copy
import functools
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.campaign.corpus import read_corpus
from harness.campaign.folder import CampaignFolder
from harness.campaign.history import read_history
from harness.campaign.journal import CannotResume, Journal
from harness.campaign.merging import CannotMerge, merge
from harness.campaign.mutes import read_mutes
from harness.campaign.past import read_past
from harness.campaign.remembered import Remembered
from harness.case import InvalidCase
from harness.cli.application import app
from harness.cli.profiles import profile_of
from harness.engines.random import Recipe
from harness.files import NotSaved
from harness.kernel_cases.subject import KernelCases
from harness.refusal import Refusal
from harness.reports.written.kept import results_in
from harness.subject.entry import Tally
from harness.subject.registry import read_file
from harness.subject.subject import Ended
from harness.subject.summary import ending_of

ROOT = Path(__file__).resolve().parents[3]
MINIMAL = ROOT / "tests" / "harness" / "repro" / "data" / "wrong-group-minimal.json"
SEQUENCE = sorted((ROOT / "corpus" / "sequences").rglob("*.json"))[0]
SECONDS = 5.0
"""Most time for one file; even those of megabytes take less."""
MEGABYTES = 512
"""Most memory that all files together may add."""
LONGEST_LINE = 3000

SIGNATURE = "postprocess/memory/wrong-bytes/temporal/-"
ROW = {
    "subject": "case", "noun": "case", "target": "builtin", "seed": 0, "shard": None, "phase": "ended", "workers": 1,
    "started": "2026-01-01T00:00:00+00:00", "updated": "2026-01-01T00:01:00+00:00", "seconds": 60.0,
    "limit_cases": 9, "limit_seconds": None, "judged": 9, "in_this_part": 9, "per_second": 1.0, "skipped": 0,
    "violations": 1, "regimes_reached": 3, "regimes": 9,
    "findings": [{"signature": SIGNATURE, "issue": None, "first": 1, "count": 1, "file": "corpus/wrong.json"}],
    "harness_failures": 0, "workers_lost": 0, "ended_early": None, "exit_status": 1,
}  # fmt: skip
RECIPE = Recipe(seed=0, domains=("reachable",), operations=("postprocess",), scale="small")
SEEN = {"when": "2026-01-01T00:00:00+00:00", "target": "builtin", "base": None, "seed": 0}
ENDED = Ended(9, 1.0, 2.0, 0, None, False)
MUTE = f"""[[finding]]
signature = "{SIGNATURE}"
reason = "known"
link = "https://example.org/1"
expires = 2026-12-31
"""
PROFILES = """[profile.nightly]
target = "builtin"
budget = "5m"
workers = 2
fail-fast = true
report = ["junit=a.xml"]
"""


def subject() -> KernelCases:
    return KernelCases(target="builtin", executor="native", limit=20.0, recipe=RECIPE)


@functools.cache
def whole() -> dict[str, bytes]:
    """The files of a campaign's folder, and those that people write, as they are when all is well."""
    head = json.dumps(subject().identity()).encode()
    lines = [head, *(json.dumps({"index": i, "signature": SIGNATURE if i == 1 else None}).encode() for i in range(9))]
    files: dict[str, Any] = {
        "campaign/configuration.json": {
            "harness_campaign": 1, "harness_version": "1", "options": {"target": "builtin", "shard": "1/2"},
        },
        "campaign/stats.json": {"harness_stats": 1, "campaigns": {"case": ROW}},
        "campaign/history.json": {
            "harness_history": 1,
            "findings": [{"subject": "case", "signature": SIGNATURE, "issue": None, "first": SEEN, "last": SEEN}],
        },
        "campaign/case.ending.json": {
            "harness_ending": 1, "folder": "findings", "at": "2026-01-01T00:00:00+00:00",
            "ending": msgspec.to_builtins(ending_of(subject().summary(Tally(subject().regimes), [], ENDED))),
        },
        "campaign/case.remembered": {"cases": 9, "said": {"executed": [], "known": [], "edits": []}},
    }  # fmt: skip
    return {
        **{name: json.dumps(content).encode() for name, content in files.items()},
        "cases.journal": b"\n".join([*lines, b""]),
        "corpus/wrong.json": MINIMAL.read_bytes(),
        "corpus/sequence.json": SEQUENCE.read_bytes(),
        "known.toml": MUTE.encode(),
        "harness.toml": PROFILES.encode(),
    }


# What is done to a file.


def nested(deep: int) -> Any:
    value: Any = []
    for _ in range(deep):
        value = [value]
    return value


HOSTILE: Sequence[Any] = (
    None, True, -1, 0, 2**31, 2**63, -(2**63) - 1, 10**40, 1e308, "", "a\nb\x1b[31m", "\x00", "../../../etc/passwd",
    "/etc/passwd", "x" * 70_000, "\u202e", [], {}, [[]], {"": {}}, [0] * 5000, [{}] * 300, nested(200), "1/0",
    "9" * 5000,
)  # fmt: skip


def hostile(random: Random) -> Any:
    """A value of its own, which may be changed."""
    return copy.deepcopy(random.choice(HOSTILE))


def places(document: Any) -> list[tuple[Any, Any]]:
    """All containers with a key or an index in them."""
    found: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        one = waiting.pop()
        keys: Any = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            found.append((one, key))
            waiting.append(one[key])
    return found


def change_tree(random: Random, text: bytes) -> bytes:
    """Another JSON document, of this one or of one of its lines."""
    lines = text.split(b"\n") if b"\n" in text and not text.startswith(b"{\n") else [text]
    number = random.randrange(len(lines))
    try:
        document = json.loads(lines[number])
    except ValueError:
        return change_bytes(random, text)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = places(document)
        if not at:
            break
        holder, key = random.choice(at)
        action = random.randrange(5)
        if action == 0:
            del holder[key]
        elif action == 1 and isinstance(holder, dict):
            holder[random.choice(("", "kind", "case", "x" * 300, "__class__", "\x00"))] = hostile(random)
        elif action == 2:
            other, place = random.choice(at)
            holder[key] = copy.deepcopy(other[place]) if place in other or isinstance(other, list) else None
        else:
            holder[key] = hostile(random)
    lines[number] = json.dumps(document).encode()
    return b"\n".join(lines)


def change_bytes(random: Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(random.choice((1, 1, 3, 20))):
        start = random.randrange(len(changed) + 1)
        stop = min(len(changed), start + random.choice((0, 1, 4, 100)))
        changed[start:stop] = random.choice(
            (b"", b"\x00", b"\xff", b"\xed\xa0\x80", b"[" * 2000, b"{\"a\":" * 2000, b"\"", b"\n", b"9" * 5000, b"NaN",
             bytes(changed[start:stop]) * 3, "\ufeff".encode(), b"[[finding]]\n" * 50, b"a.b.c = {x = [1,2]}\n", b"= ")
        )  # fmt: skip
    return bytes(changed)


def attacked(random: Random, text: bytes) -> bytes:
    kind = random.randrange(10)
    if kind == 0:
        return text[: random.randrange(len(text) + 1)]
    if kind == 1:
        return random.choice((b"", b"null", b"[" * 100_000, b'{"a":' * 50_000, b"\xff" * 999, b" " * 1_000_000, b"{}"))
    if kind < 7:
        return change_tree(random, text)
    return change_bytes(random, text)


# What reads it.


def use_repro(file: Path) -> None:
    kind, repro = read_file(file)
    kind.case_of(repro)
    kind.regimes_of(repro)
    assert "/" not in repro.file_name


def use_journal(folder: Path) -> None:
    one = subject()
    journal = Journal(folder / one.journal, one.identity(), one.noun, one.current_identity)
    for entry in journal.read():
        assert entry.index >= 0


def use_profile(file: Path) -> None:
    command: Any = typer.main.get_command(app)
    run = command.get_command(None, "run")
    profile_of(file, "nightly", run.params, run.make_context("run", [], resilient_parsing=True))


READERS: dict[str, Sequence[Callable[[Path], object]]] = {
    "corpus/wrong.json": (
        lambda folder: use_repro(folder / "corpus" / "wrong.json"),
        lambda folder: read_corpus(folder / "corpus"),
    ),
    "corpus/sequence.json": (lambda folder: use_repro(folder / "corpus" / "sequence.json"),),
    "cases.journal": (use_journal, read_past, lambda folder: merge([folder], folder / "merged")),
    "campaign/configuration.json": (
        lambda folder: CampaignFolder(folder).read(),
        lambda folder: merge([folder], folder / "merged"),
    ),
    "campaign/stats.json": (read_past,),
    "campaign/history.json": (lambda folder: read_history(CampaignFolder(folder).history_file),),
    "campaign/case.ending.json": (lambda folder: CampaignFolder(folder).endings(), results_in),
    "campaign/case.remembered": (
        lambda folder: Remembered(CampaignFolder(folder).remembered_file("case")).recall(subject()),
    ),
    "known.toml": (lambda folder: read_mutes(folder / "known.toml"),),
    "harness.toml": (lambda folder: use_profile(folder / "harness.toml"),),
}

REFUSALS = (Refusal, InvalidCase, CannotResume, NotSaved)
"""What becomes one line and a status."""


class Watched:
    """Which files are opened."""

    def __init__(self) -> None:
        self.on = False
        self.opened: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event == "open" and isinstance(arguments[0], str | bytes):
            self.opened.append(arguments[0] if isinstance(arguments[0], str) else arguments[0].decode())

    @contextmanager
    def within(self, folder: Path) -> Iterator[None]:
        self.opened, self.on = [], True
        try:
            yield
        finally:
            self.on = False
        ours = (str(folder), sys.prefix, sys.base_prefix, str(ROOT), "/proc/self", "/usr/lib", "/usr/share")
        assert [path for path in self.opened if path.startswith("/") and not path.startswith(ours)] == []


WATCHED = Watched()


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def attack(folder: Path, name: str, seed: int) -> str:
    """Attack a file, and return how that ended: `read` or `refused`."""
    files = whole()
    for other, text in files.items():
        path = folder / other
        if not path.exists() or path.read_bytes() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    (folder / name).write_bytes(attacked(Random(seed), files[name]))
    end = "read"
    for reader in READERS[name]:
        began = time.monotonic()
        try:
            with WATCHED.within(folder):
                reader(folder)
        except REFUSALS as refusal:
            end, line = "refused", str(refusal)
            if len(line) > LONGEST_LINE + 4 * len(str(folder)):
                raise AssertionError(f"too long a line: {line[:500]}") from refusal
        assert time.monotonic() - began < SECONDS
    return end


def use_all(folder: Path) -> None:
    """Read each file as it is, which also imports what reading needs."""
    for readers in READERS.values():
        files = whole()
        for other, text in files.items():
            (folder / other).parent.mkdir(parents=True, exist_ok=True)
            (folder / other).write_bytes(text)
        for reader in readers:
            try:
                reader(folder)
            except CannotMerge as refusal:
                reason = str(refusal)
                assert "shard" in reason, reason


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("hostile")
    use_all(made)
    return made


def test_files_that_are_as_they_should_be_are_read(tmp_path: Path) -> None:
    use_all(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(name=st.sampled_from(sorted(READERS)), seed=st.integers(0, 2**64))
def test_any_file_is_refused_in_a_line_or_read(folder: Path, name: str, seed: int) -> None:
    attack(folder, name, seed)


@pytest.mark.slow
def test_many_files_are_refused_in_a_line_or_read(folder: Path) -> None:
    """20,000 files, the same ones every time."""
    before, ends = megabytes(), dict.fromkeys(("read", "refused"), 0)
    for seed in range(20_000):
        ends[attack(folder, sorted(READERS)[seed % len(READERS)], seed)] += 1
    assert min(ends.values()) > 2000, ends
    assert megabytes() - before < MEGABYTES
    print(f"{ends}, {megabytes() - before:.0f} MB more")
