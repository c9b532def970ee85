"""Numbers: a subject as small as possible. A case is a list of numbers, and it is wrong if it holds a bad one.

The environment variable NUMBERS says what lists with a number do: `segfault:97`, one of the harms of broken targets.
NUMBERS_LEAVES_AFTER is the number of a list after whose result a worker ends.
With NUMBERS_ARE_GOOD none is bad.
Releases before 0.30.0 have no numbers, and since 0.32.0 none is bad.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
from broken_targets import HARMS
from packaging.version import Version

from harness.check.outcome import Evidence, Signature
from harness.kernels.targets.selection import release_of
from harness.repro import Origin, ShrinkRecord
from harness.repro.format import DIGITS
from harness.shrink.driver import Judged
from harness.subject.standing import Standing
from harness.subject.subject import Key, NotApplicable, Replayed, Setting, Subject
from harness.subject.summary import ComparedFinding, Line
from harness.worker.judge import Channel, Judge
from harness.worker.losses import WorkerLost
from harness.worker.messages import JudgeRange
from harness.worker.process import Assignment, WorkerProcess

BAD = {13: "unlucky", 14: "unlucky-too"}


def draw(seed: int, index: int) -> list[int]:
    random = Random(f"{seed}/{index}")
    return [random.randrange(100) for _ in range(8)]


class NumbersJudge(Judge):
    def __init__(self, target: str, channel: Channel) -> None:
        super().__init__(channel)
        words = [word.partition(":") for word in os.environ.get("NUMBERS", "").split(",") if word]
        self._harms = {int(number): HARMS[name] for name, _, number in words}
        good = "NUMBERS_ARE_GOOD" in os.environ or (release_of(target) or Version("0")) >= Version("0.32")
        self._bad = {} if good else BAD

    def judge(self, case: bytes, how: bytes) -> bytes:
        self.channel.at("numbers")
        numbers = msgspec.json.decode(case, type=list[int])
        for number in self._harms.keys() & set(numbers):
            self._harms[number](None)
        return next((self._bad[number].encode() for number in numbers if number in self._bad), b"")

    def range(self, request: JudgeRange) -> int:
        for index in range(request.start, request.stop):
            if super().range(msgspec.structs.replace(request, start=index, stop=index + 1)) == index:
                return index
            if str(index) == os.environ.get("NUMBERS_LEAVES_AFTER"):
                os._exit(3)
        return request.stop

    def judge_drawn(self, recipe: bytes, index: int) -> tuple[bytes, bytes | None, float]:
        case = msgspec.json.encode(draw(int(recipe), index))
        result = self.judge(case, b"")
        return result, case if result else None, 0.0


class NumbersRepro(msgspec.Struct, frozen=True, kw_only=True):
    harness_repro: int = 1
    kind: str = "number"
    signature: Signature
    evidence: Evidence
    origin: Origin
    shrink: ShrinkRecord | None = None
    issue: str | None = None
    domain: str = "total"
    numbers: list[int]

    @property
    def file_name(self) -> str:
        digest = hashlib.sha256(msgspec.json.encode(self.numbers)).hexdigest()[:8]
        return f"number-{self.signature.violation}-{digest}.json"


class NumbersSummary(msgspec.Struct):
    target: str
    noun: str
    count: int
    findings: list[ComparedFinding]
    harness_failures: int
    missing: list[str]
    exit_status: int
    standing: Standing | None = None

    def compared(self) -> Sequence[ComparedFinding]:
        return self.findings

    def overview(self) -> tuple[str, str]:
        return "all judged", ""

    def lines(self, *, verbose: bool) -> Sequence[Line]:
        return [Line("finding", found.signature) for found in self.findings]

    def answer(self) -> None:
        """None: the lines have it."""


def drop(case: list[int]) -> Iterator[Any]:
    return ((lambda place=place: case[:place] + case[place + 1 :]) for place in range(len(case)))


@dataclass
class Numbers(Subject[list[int], str]):
    """The judge of numbers: a result says what is wrong with them, if anything is."""

    target: str
    seed: int = 0
    limit: float = 60.0
    executor = "none"
    name = noun = "number"
    journal = "numbers.journal"
    file_patterns = (f"number-*-{DIGITS}.json",)

    def title(self, limit: str, workers: str) -> str:
        return f"numbers of {self.target}, {limit}, {workers}"

    def identity(self) -> dict[str, object]:
        return {"target": self.target, "seed": self.seed}

    def assignment(self) -> Assignment:
        return Assignment("numbers_subject:NumbersJudge", self.target)

    def recipe_text(self) -> bytes:
        return str(self.seed).encode()

    def draw(self, index: int) -> list[int]:
        return draw(self.seed, index)

    def encode(self, case: list[int]) -> bytes:
        return msgspec.json.encode(case)

    def decode(self, text: bytes) -> list[int]:
        return msgspec.json.decode(text, type=list[int])

    def read(self, result: bytes) -> str:
        return result.decode()

    def lost(self, loss: WorkerLost) -> str:
        return f"process-{loss.violation}"

    def key(self, case: list[int], result: str) -> Key | None:
        return Key(result) if result else None

    def is_loss(self, result: str) -> bool:
        return result.startswith("process-")

    def repro(self, case: list[int], result: str, index: int | None, issue: Any, record: Any) -> NumbersRepro:
        origin = Origin(
            target=self.target, executor="none", harness_version="0", generator_version=1, seed=self.seed, index=index
        )
        return NumbersRepro(
            signature=Signature("numbers", "list", result, "numbers", "-"),
            evidence=Evidence(f"{case} are {result}"),
            origin=origin,
            shrink=record,
            numbers=case,
        )

    def plan(self, worker: WorkerProcess, key: Key, result: str) -> Any:
        def judge(case: list[int]) -> Judged[str]:
            found = self.judge(worker, case)
            return Judged(found, found == result, found if found != result else None, found == "process-hang")

        return SimpleNamespace(
            passes=(drop,),
            encode=self.encode,
            size=lambda case: (len(case),),
            require_valid=lambda case: None,
            judge=judge,
        )

    def summary(self, tally: Any, findings: Any, ended: Any) -> NumbersSummary:
        found = [ComparedFinding(key.signature, "total", one.count, str(one.path)) for key, one in findings]
        missing = list(ended.missing)
        status = ended.exit_status(bool(found), bool(missing))
        return NumbersSummary(
            self.target, self.noun, tally.cases, found, ended.harness_failures, missing, status, ended.standing
        )

    def replayed(self, repro: NumbersRepro, result: str) -> Replayed:
        same = result == repro.signature.violation
        answer: Any = "FAILED" if result else "FIXED"
        return Replayed(answer, self.target, None, same, result or None, f"they are {result or 'right'}", result)

    @classmethod
    def of_file(cls, repro: NumbersRepro, setting: Setting) -> tuple[Numbers, NumbersRepro]:
        target = setting.target or repro.origin.target
        if (release_of(target) or Version("1")) < Version("0.30"):
            raise NotApplicable("it has no numbers")
        return cls(target, limit=setting.limit or 60.0), repro

    @classmethod
    def case_of(cls, repro: NumbersRepro) -> list[int]:
        return repro.numbers

    @classmethod
    def smaller(cls, repro: NumbersRepro, case: list[int], result: str, issue: Any, record: Any) -> NumbersRepro:
        return msgspec.structs.replace(
            cls(repro.origin.target).repro(case, result, None, None, record), origin=repro.origin
        )
