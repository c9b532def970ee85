"""The timeline of a step sequence: requests and blocks as lanes, steps as columns, copies as arrows.

It is read from the evidence, whose last lines say what the last steps did (`harness.oracles.states.history`). A line in
another form is no mistake: it is a caption.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.reports.pictures.picture import Arrow, Cell, Lane, Mark, Panel, Picture, Point
from harness.repro import SequenceRepro
from harness.text import counted

START = "the last steps:"
"""The line of evidence that the history follows."""

MOST_LANES = 12
MOST_STEPS = 6
"""A history has no more steps, with the one that wrote the state last."""

STEP = re.compile(r"step (\d+): (.*)")
ROW = re.compile(r"(row|decode) of (request \d+): ([^;]+); state column (\d+)(.*)")
MOVE = re.compile(r"(precopy|postprocess) of (request \d+): column -?\d+ to column -?\d+, bias (-?\d+)(.*)")
OF_GROUP = re.compile(r"group (\d+): block (\d+)(?: \(conv: block (\d+)\))?(?: to block (\d+))?")
COPY = re.compile(r"block (\d+) is copied to block (\d+)")
DECIDED = re.compile(
    r"(request \d+) (finished or aborted|preempted|left out \(not scheduled\)|admitted with \d+ tokens? computed"
    r"|resumed with \d+ tokens? computed|scheduled, .+)"
)
CHECKPOINT = re.compile(r"a checkpoint after (\d+) tokens? to column (\d+)")
WHERE = re.compile(r"block (\d+)(?:, (?:column (\d+) of )?group (\d+))?")
WRITER = re.compile(r"(.+?) of (\S+(?: \d+)?) in step (\d+)")


def timeline(repro: SequenceRepro) -> Picture | None:
    """The picture of a sequence's finding; None if its evidence has no history."""
    evidence = repro.evidence
    if START not in evidence.details:
        return None
    begin = evidence.details.index(START)
    said = dict(line.partition(": ")[::2] for line in evidence.details[:begin])
    steps = _Steps()
    captions = [line for line in evidence.details[begin + 1 :] if not steps.read(line)]
    if not steps.numbers:
        return None
    steps.mark(said)
    return Picture(evidence.summary, [steps.panel()], captions)


@dataclass
class _Entry:
    """What one lane has in one step."""

    texts: list[str] = field(default_factory=list)
    mark: Mark = "plain"
    groups: dict[str, str] = field(default_factory=dict)
    """The group that a text is about, where it is about one."""

    def add(self, text: str, group: str) -> None:
        """Take in what a block of a group has."""
        self.texts.append(text)
        self.groups[text] = group

    def lines(self, *, with_groups: bool) -> list[str]:
        """Its texts, each once."""
        texts = dict.fromkeys(self.texts)
        return [f"{one} (group {self.groups[one]})" if with_groups and self.groups.get(one) else one for one in texts]


@dataclass
class _Steps:
    """What the lines said so far. Lanes of requests come before those of blocks, each in the order in which they are
    named."""

    requests: dict[str, dict[int, _Entry]] = field(default_factory=dict)
    blocks: dict[str, dict[int, _Entry]] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=dict)
    """The groups that had each block, as far as a line says it: a block that was freed may get into another one."""
    arrows: list[tuple[int, str, str, str]] = field(default_factory=list)
    """Step, source, destination and label of copies between blocks."""

    @property
    def numbers(self) -> list[int]:
        steps = {step for lane in (*self.requests.values(), *self.blocks.values()) for step in lane}
        return sorted(steps)[-MOST_STEPS:]

    def read(self, line: str) -> bool:
        """Take a line in. Returns False, with nothing done, if it has another form."""
        found = STEP.fullmatch(line)
        if found is None:
            return False
        step, text = int(found[1]), found[2]
        readers: tuple[tuple[re.Pattern[str], Callable[[int, re.Match[str]], None]], ...] = (
            (ROW, self._row),
            (MOVE, self._move),
            (COPY, self._copy),
            (DECIDED, self._decided),
        )
        for pattern, take in readers:
            match = pattern.fullmatch(text)
            if match is not None:
                take(step, match)
                return True
        return False

    def _in_group(self, block: str, group: str) -> None:
        self.groups.setdefault(block, set()).add(group)

    def _of(self, lanes: dict[str, dict[int, _Entry]], name: str, step: int) -> _Entry:
        return lanes.setdefault(name, {}).setdefault(step, _Entry())

    def _row(self, step: int, row: re.Match[str]) -> None:
        kind, request, tokens, _, rest = row.groups()
        texts = self._of(self.requests, request, step).texts
        texts += [f"decode: {tokens}" if kind == "decode" else tokens]
        checkpoint = CHECKPOINT.search(rest)
        if checkpoint is not None:
            texts.append(f"checkpoint after {checkpoint[1]} to column {checkpoint[2]}")
        for group, block, _, _ in OF_GROUP.findall(rest):
            self._in_group(block, group)
            self._of(self.blocks, block, step).add(f"state of {request}", group)

    def _move(self, step: int, move: re.Match[str]) -> None:
        kind, request, bias, rest = move.groups()
        for group, source, window, destination in OF_GROUP.findall(rest):
            self._in_group(source, group)
            self._in_group(destination, group)
            of_request = f"{kind} of {request}"
            label = kind if bias == "0" else f"{kind}, bias {bias}"
            if source == destination:  # no arrow from a block to itself
                shifted = f", {counted(int(bias), 'token')} further on" if bias != "0" else ""
                self._of(self.blocks, source, step).add(f"{of_request} in place{shifted}", group)
            else:
                self._of(self.blocks, source, step)
                self._of(self.blocks, destination, step).add(of_request, group)
                self.arrows.append((step, source, destination, label))
            if window and window != destination:
                self._in_group(window, group)
                self._of(self.blocks, window, step)
                self.arrows.append((step, window, destination, f"{kind} (conv)"))

    def _copy(self, step: int, copy: re.Match[str]) -> None:
        source, destination = copy.groups()
        self._of(self.blocks, source, step)
        self._of(self.blocks, destination, step).texts.append(f"copy of block {source}")
        self.arrows.append((step, source, destination, "block copy"))

    def _decided(self, step: int, decided: re.Match[str]) -> None:
        request, text = decided.groups()
        self._of(self.requests, request, step).texts.append(text.replace(" (not scheduled)", ""))

    def mark(self, said: dict[str, str]) -> None:
        """Mark what the evidence names: the wrong read, and the step that wrote the state last."""
        if re.fullmatch(r"\d+", said.get("step", "")) is None:
            return
        step, where = int(said["step"]), WHERE.match(said.get("where", ""))
        writer = WRITER.match(said.get("last writer", ""))
        if where is None:
            request = said.get("request", "")
            if request in self.requests:
                self._of(self.requests, request, step).mark = "wrong"
            return
        block = where[1]
        if block not in self.groups:
            self._in_group(block, where[3] or "")
        if writer is not None:
            entry = self._of(self.blocks, block, int(writer[3]))  # before the history: a column of its own
            entry.mark = "cause"
            if not entry.texts:
                entry.texts.append(writer[1])
        entry = self._of(self.blocks, block, step)
        if entry.mark == "cause":
            entry.texts.append("wrote it last")
        entry.mark = "wrong"
        held = said.get("holds") or said.get("found") or ""
        entry.texts.insert(0, f"holds {held}" if held else "wrong")  # first: a cell has room for few lines

    def panel(self) -> Panel:
        numbers = self.numbers
        names = [*self.requests, *self.blocks][:MOST_LANES]
        requests = list(self.requests)
        lanes = []
        for name in names:
            entries = self.requests[name] if name in self.requests else self.blocks[name]
            groups = self.groups.get(name, set()) - {""}
            one = f" (group {min(groups)})" if len(groups) == 1 else ""
            title = name if name in requests else f"block {name}{one}"
            lanes.append(Lane(title, [self._cell(entries.get(step), len(groups) > 1) for step in numbers]))
        arrows = [
            Arrow(
                "copy",
                Point(names.index(one), numbers.index(step)),
                Point(names.index(other), numbers.index(step)),
                label,
            )
            for step, one, other, label in dict.fromkeys(self.arrows)
            if one in names and other in names and step in numbers
        ]
        left = len(self.requests) + len(self.blocks) - len(names)
        title = "The last steps" if not left else f"The last steps, without {left} more lanes"
        return Panel(title, [f"step {number}" for number in numbers], lanes, arrows)

    def _cell(self, entry: _Entry | None, with_groups: bool) -> Cell | None:
        if entry is None:
            return None
        texts = entry.lines(with_groups=with_groups)
        return Cell("\n".join(texts), entry.mark, "; ".join(texts))
