"""Whether a campaign has the same findings however it is run. At size, by hand:

    python -m tests.harness.campaign.same_findings --out /tmp/same --cases 20000 --sequences 1000

Each way is one campaign of the same cases: with 1, 2 and 4 workers, as three shards that are merged, on a cluster of
three nodes of which one is lost (needs the package ray), and with the parent killed at ten random moments while it
judges, and resumed. What it leaves is compared with what the first way left: the summary with all counters, the
journal, and every file, except for times. Ways that are kept in `--out` are not run again, so they may be run one by
one, from several environments. Status 1 if ways differ.

How often a case began is counted in the workers. Each may begin once; in addition, where a campaign was killed, those
of which the journal has no result (one for each worker, and one whose result was being written), and where it was
resumed or merged, one case of each finding. Which lines of kernels
ran is not known of a part that was killed, and a notice says so: there may be fewer.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harness.text import counted
from tests.processes import children, is_running, wait_for

ROOT = Path(__file__).resolve().parents[3]
CLUSTER = ROOT / "tests" / "harness" / "cli" / "ray_cluster.py"
BEGUN = "SAME_FINDINGS_BEGUN"
"""Names the file to which workers append the number of each case that they begin."""
COMMAND, WORKER = "harness", "serve"
"""What this script is when it is called so: a `harness` command whose workers count, and such a worker."""
SHARDS, CLUSTER_SHARDS, KILLS = 3, 9, 10
TIMES = ("seconds", "whole_seconds", "cases_per_second", "steps_per_second", "in_this_part")
"""Fields of a summary that say how long it took, or what its last part did."""


class Side(NamedTuple):
    """What is drawn: a target with planted faults, the journal, and the name of a count in the summary."""

    noun: str
    journal: str
    words: tuple[str, ...]

    def options(self, count: int, seed: int) -> list[str]:
        return [*self.words, "--seed", str(seed), "--cases", str(count)]


KERNELS = Side("case", "cases.journal", ("-t", "builtin+fills-zero+count-stays-behind+int32-offset"))
SEQUENCES = Side(
    "sequence", "sequences.journal", ("-t", "vllm==0.33.0+kept-columns", "--ops", "sequences", "--fixes", "none")
)


class Left(msgspec.Struct):
    """What a way left: the summary and the files without times, what the journal has for each case, how many cases
    began more often than once (None: not known), and the seconds that it took. `wrong` says what must not be, whatever
    another way left."""

    summary: dict[str, Any]
    files: dict[str, Any]
    journal: dict[str, list[Any]]
    again: int | None
    wrong: list[str]
    seconds: float


# Running.


def command(*words: object) -> list[str]:
    """The command line of a `harness` command whose workers count."""
    return [sys.executable, "-P", __file__, COMMAND, *map(str, words)]


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, BEGUN: str(folder / "begun")}


class Run:
    """A way of running a campaign of `count` cases of a side, in a folder of its own."""

    def __init__(self, side: Side, count: int, seed: int, folder: Path) -> None:
        self.side, self.count, self.seed, self.folder = side, count, seed, folder
        self.options = side.options(count, seed)
        self.out = folder / "out"
        self.wrong: list[str] = []
        self.lost: Counter[int] = Counter()
        """How often each case began without a result before the campaign was killed."""
        self.judged_again: Counter[int] = Counter()
        """How often each case began that had a result when the campaign was resumed."""

    def ended(self, words: Sequence[str]) -> dict[str, Any]:
        """The summary that a command prints."""
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=environment(self.folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 1, 3), f"status {done.returncode}: {done.stderr[-2000:]}"
        summary: dict[str, Any] = json.loads(done.stdout)
        return summary

    def workers(self, number: int) -> dict[str, Any]:
        return self.ended(command("run", *self.options, "-j", number, "--json", "--out", self.out))

    def shards(self) -> dict[str, Any]:
        parts = [self.folder / f"part-{number}" for number in range(1, SHARDS + 1)]
        for number, part in enumerate(parts, 1):
            shard = ("--shard", f"{number}/{SHARDS}", "--no-shrink", "--json", "--out", part)
            self.ended(command("run", *self.options, "-j", 2, *shard))
        parted = journaled(*(part / self.side.journal for part in parts))
        self._look({}, parted)
        summary = self.ended(command("merge", *parts, "--json", "--out", self.out))
        self._look(parted, journaled(self.out / self.side.journal))
        return summary

    def cluster(self) -> dict[str, Any]:
        start = "from harness.cli.main import main; main()"
        words = ("-P", "-c", start, "run", *self.options, "--json", "-j", "1")
        return self.ended([sys.executable, "-P", str(CLUSTER), str(CLUSTER_SHARDS), str(self.out), *words])

    def killed(self, kills: int = KILLS) -> dict[str, Any]:
        """Only the parent is killed, as a machine out of memory does; its workers have to end with it."""
        drawn = random.Random(self.seed)
        moments = sorted(drawn.sample(range(1, self.count * 19 // 20), kills))
        before: dict[int, list[dict[str, Any]]] = {}
        for number, moment in enumerate(moments):
            resume = ["--resume", self.out] if number else [*self.options, "--out", self.out]
            workers = drawn.choice((1, 2))
            words = command("run", *resume, "-j", workers, "--json")
            running = subprocess.Popen(
                words, cwd=self.folder, env=environment(self.folder), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            growing = Lines(self.out / self.side.journal)
            reached = max(moment, len(before) + 1)  # the journal has a first line; something is judged in each part
            wait_for(lambda growing=growing, reached=reached: growing.count() > reached or running.poll() is not None)  # noqa: B023
            time.sleep(drawn.random() / 10)
            with_it = children(running.pid) if running.poll() is None else []
            running.kill()
            _, errors = running.communicate()
            assert running.returncode == -signal.SIGKILL, errors.decode()[-2000:]
            wait_for(lambda with_it=with_it: not any(map(is_running, with_it)))
            now = journaled(self.out / self.side.journal)
            assert 0 < len(now) < self.count, "it was killed while it judged"
            lost = self._look(before, now)
            print(f"  killed after {len(now)}, with {sorted(lost)} without a result", flush=True)
            if len(lost) > workers + 1:  # a result may have been on its way to the journal
                self.wrong.append(f"{sorted(lost)} without a result after a kill of {counted(workers, 'worker')}")
            before = now
        summary = self.ended(command("run", "--resume", self.out, "-j", 2, "--json"))
        self._look(before, journaled(self.out / self.side.journal))
        return summary

    def _look(self, before: dict[int, list[dict[str, Any]]], now: dict[int, list[dict[str, Any]]]) -> set[int]:
        """Look at what began in a part of the campaign: what had a result before, one case of each finding, and
        what has none now, which is returned."""
        log = self.folder / "begun"
        part = Counter(map(int, log.read_text().split()))
        log.rename(self.folder / f"begun.{len(list(self.folder.glob('begun.*')))}")
        again = {index for index in part if index in before}
        keys = {(one["signature"], one.get("issue")) for each in before.values() for one in each if "signature" in one}
        if len(again) > len(keys):
            self.wrong.append(f"{len(again)} cases judged again for {len(keys)} findings: {sorted(again)}")
        self.wrong += [
            f"{index} judged again, which showed nothing" for index in again if "signature" not in before[index][0]
        ]
        self.wrong += [f"{index} began {times} times in a part" for index, times in part.items() if times > 1]
        lost = set(part) - set(now)
        self.lost.update(lost)
        self.judged_again.update(again)
        return lost


WAYS: dict[str, Callable[[Run], dict[str, Any]]] = {
    "1-worker": lambda run: run.workers(1),
    "2-workers": lambda run: run.workers(2),
    "4-workers": lambda run: run.workers(4),
    "shards": Run.shards,
    "cluster": Run.cluster,
    "killed": Run.killed,
}


class Lines:
    """Counts the lines of a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._read, self._lines = path, 0, 0

    def count(self) -> int:
        if self._path.is_file():
            with self._path.open("rb") as stream:
                stream.seek(self._read)
                more = stream.read()
            self._read += len(more)
            self._lines += more.count(b"\n")
        return self._lines


# What is left.


def left(name: str, run: Run) -> Left:
    """Run a campaign in one of the ways."""
    run.folder.mkdir(parents=True)
    began = time.monotonic()
    summary = WAYS[name](run)
    seconds = round(time.monotonic() - began, 1)
    entries = journaled(run.out / run.side.journal)
    wrong, again = list(run.wrong), None
    if name != "cluster":  # there a node that is lost begins its shard anew, and each node counts for itself
        times = Counter(begun(run.folder))
        again = sum(times.values()) - len(times)
        expected = Counter(range(run.count)) + run.lost + run.judged_again
        wrong += [
            f"{index} began {times[index]} times, not {expected[index]}"
            for index in sorted({*times, *expected})
            if times[index] != expected[index]
        ]
    return Left(without_times(summary), files(run.out), entries_without_times(entries), again, wrong, seconds)


def begun(folder: Path) -> list[int]:
    """The numbers of the cases that began, in all parts of a campaign."""
    return [int(number) for path in folder.glob("begun*") for number in path.read_text().split()]


def journaled(*paths: Path) -> dict[int, list[dict[str, Any]]]:
    """The entries of each case in journals."""
    found: dict[int, list[dict[str, Any]]] = {}
    for path in paths:
        for line in path.read_bytes().split(b"\n")[1:-1]:
            entry = json.loads(line)
            found.setdefault(entry["index"], []).append(entry)
    return found


def entries_without_times(entries: dict[int, list[dict[str, Any]]]) -> dict[str, list[Any]]:
    """With repeated entries: the journal of a campaign has a case once."""
    return {
        str(index): [{name: value for name, value in entry.items() if name != "seconds"} for entry in each]
        for index, each in sorted(entries.items())
    }


def without_times(summary: dict[str, Any]) -> dict[str, Any]:
    for finding in summary["findings"]:
        finding["repro"] = Path(finding["repro"]).name
        if finding.get("shrink"):
            del finding["shrink"]["seconds"]
    return {name: value for name, value in summary.items() if name not in TIMES}


def files(out: Path) -> dict[str, Any]:
    """All findings: minimal, as drawn, and met while shrinking."""
    found = {}
    for path in sorted(out.rglob("*.json")):
        name = str(path.relative_to(out))
        if not name.startswith(("earlier.", "campaign/", "shards/")):
            found[name] = content = json.loads(path.read_bytes())
            if content["shrink"] is not None:
                del content["shrink"]["seconds"]
    return found


# Comparing.


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """Where two documents differ, a line each."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({**one, **other}):
            yield from differences(one.get(key), other.get(key), f"{place}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (first, second) in enumerate(zip(one, other, strict=True)):
            yield from differences(first, second, f"{place}/{number}")
    elif one != other:
        yield f"{place}: {json.dumps(one)[:200]} and {json.dumps(other)[:200]}"


def compared(count: int, first: Left, other: Left, killed: bool) -> list[str]:
    """What is wrong with a way, in the light of the first one: nothing if it left the same."""
    wrong = list(other.wrong)
    wrong += [f"journal/{index}: {len(each)} entries" for index, each in other.journal.items() if len(each) != 1]
    wrong += [f"journal/{index}: nothing" for index in range(count) if str(index) not in other.journal]
    for name in ("summary", "files", "journal"):
        wrong += differences(getattr(first, name), getattr(other, name), name)
    if killed:
        wrong = [line for line in wrong if not line.startswith("summary/kernel_lines")]
    return wrong


def same(side: Side, count: int, seed: int, ways: Sequence[str], out: Path) -> bool:
    """Run campaigns in these ways, unless `out` has them, and say whether they left the same."""
    first: Left | None = None
    right = True
    for name in ways:
        folder = out / f"{side.noun}-{name}"
        kept = folder / "left.json"
        if not kept.is_file():
            kept.write_bytes(msgspec.json.encode(left(name, Run(side, count, seed, folder))))
        found = msgspec.json.decode(kept.read_bytes(), type=Left)
        first = first or found
        wrong = compared(count, first, found, killed=name == "killed")
        failed = sum(finding[f"{side.noun}s"] for finding in found.summary["findings"])
        what = (
            f"{len(found.summary['findings'])} findings in {failed} of {count} {side.noun}s, {len(found.files)} files"
        )
        more = "" if found.again is None else f", {found.again} begun again"
        print(
            f"{side.noun} {name}: {what}{more}, {found.seconds:.0f} s: {'differs' if wrong else 'the same'}", flush=True
        )
        for line in wrong[:20]:
            print(f"  {line}", flush=True)
        right = right and not wrong
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--sequences", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    sides = [(KERNELS, given.cases), (SEQUENCES, given.sequences)]
    results = [same(side, count, given.seed, given.ways, given.out.resolve()) for side, count in sides if count]
    sys.exit(0 if all(results) else 1)


# A `harness` command whose workers count.


def counted_command() -> None:
    from harness.cli.main import main as harness
    from harness.worker.process import WorkerProcess

    WorkerProcess.SERVES = (__file__, WORKER)
    harness()


def counting_worker() -> None:
    from harness.worker import child
    from harness.worker.judge import Channel, Judge, MakeJudge

    serve = child.serve
    log = os.open(os.environ[BEGUN], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def counting(make: MakeJudge) -> MakeJudge:
        def made(assignment: str, channel: Channel) -> Judge:
            judge = make(assignment, channel)
            judged = judge.judge_drawn

            def judge_drawn(recipe: bytes, index: int) -> tuple[bytes, bytes | None, float]:
                os.write(log, b"%d\n" % index)
                return judged(recipe, index)

            judge.judge_drawn = judge_drawn  # type: ignore[method-assign]
            return judge

        return made

    child.serve = lambda connection, make, assignment: serve(connection, counting(make), assignment)
    child.main()


if __name__ == "__main__":
    role = sys.argv[1] if len(sys.argv) > 1 else ""
    if role in (COMMAND, WORKER):
        del sys.argv[1]
    {COMMAND: counted_command, WORKER: counting_worker}.get(role, main)()
