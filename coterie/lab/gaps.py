"""The cause of each microsecond in which a partition has no reader.

A gap has marks: what was known at which time. When it ends, its time is divided at the marks and at
the borders of the times in which a leader delays on purpose or a member has given up.

barrier     its next owner is its last one, which had to stop
handover    given up by its owner and not yet given to the next one
undetected  the owner is dead or paused, and no other participant knows
waiting     that is known, and the rebalance is under way
delay       the leader of Connect waits for the worker to come back
broker      the broker of the partition is down
poison      its reader tries a record again and again that it cannot process
start       the new owner does not read yet: it fetches offsets, or RocketMQ waits 500 ms
idle        a member has given up trying
"""

from collections.abc import Iterator
from typing import NamedTuple

CAUSES = (
    "barrier",
    "handover",
    "undetected",
    "waiting",
    "delay",
    "broker",
    "poison",
    "start",
    "idle",
)

# What marks say. GIVEN_UP becomes `barrier` or `handover` when the next owner is known.
GIVEN_UP, UNDETECTED, WAITING, START = "given up", "undetected", "waiting", "start"
# The reader of a partition gets nothing done.
BROKER, POISON = "broker", "poison"


class Part(NamedTuple):
    """A part of a gap that has one cause."""

    from_us: int
    to_us: int
    cause: str


class Spans:
    """Times in which something lasts, in order; the last one may be open."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []

    def add(self, from_us: int, to_us: int) -> None:
        """Add a span; it replaces the part of the last one that is behind its beginning."""
        if self.spans and self.spans[-1][1] > from_us:
            self.spans[-1] = (self.spans[-1][0], from_us)
        if to_us > from_us:
            self.spans.append((from_us, to_us))

    def split(self, from_us: int, to_us: int) -> Iterator[tuple[int, int, bool]]:
        """Divide a time at the borders of the spans."""
        at_us = from_us
        for begin_us, end_us in self.spans:
            begin_us, end_us = max(begin_us, at_us), min(end_us, to_us)
            if begin_us >= end_us:
                continue
            if at_us < begin_us:
                yield at_us, begin_us, False
            yield begin_us, end_us, True
            at_us = end_us
        if at_us < to_us:
            yield at_us, to_us, False


class Gap:
    """A partition without a reader.

    Attributes:
        since_us: when its last reader stopped.
        last_owner: the member that stopped.
    """

    def __init__(self, since_us: int, last_owner: str | None, mark: str) -> None:
        self.since_us = since_us
        self.last_owner = last_owner
        self._marks = [(since_us, mark)]

    @property
    def mark(self) -> str:
        """What is known now."""
        return self._marks[-1][1]

    def add_mark(self, at_us: int, mark: str) -> None:
        """Note that something else is known from now on."""
        self._marks.append((at_us, mark))

    def parts(
        self, to_us: int, next_owner: str | None, delays: Spans, idle: Spans
    ) -> Iterator[Part]:
        """Divide the gap by cause, up to the time at which it ends."""
        ends = [at_us for at_us, _ in self._marks[1:]] + [to_us]
        for (from_us, mark), end_us in zip(self._marks, ends, strict=True):
            if from_us >= end_us:
                continue
            cause = mark
            if mark == GIVEN_UP:
                cause = "barrier" if next_owner == self.last_owner else "handover"
            if mark in (START, UNDETECTED, BROKER, POISON):
                yield Part(from_us, end_us, cause)
                continue
            for begin_us, until_us, delayed in delays.split(from_us, end_us):
                if delayed:
                    yield Part(begin_us, until_us, "delay")
                    continue
                for first_us, last_us, given_up in idle.split(begin_us, until_us):
                    yield Part(first_us, last_us, "idle" if given_up else cause)
