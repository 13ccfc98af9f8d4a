"""Whether a history of a register is linearizable: one order, in real time, explains every answer.

A committed offset is a register whose written values all differ. That case is decided by zones
(Gibbons and Korach, 1997): the operations of a value are its write and the reads that returned it;
`first_end` is the earliest end among them and `last_begin` the latest begin. The value must have
been there from one to the other if `first_end` is before `last_begin`, and at one moment between
them otherwise. A history is linearizable if

- no read ends before the write of its value begins, or returns a value that was never written;
- for no two values each one has an operation that ends before one of the other begins.

A write without an answer may have happened or not: it counts only if somebody has read it, and then
never ends. A read without an answer says nothing. Operations that touch at the same moment are
taken for simultaneous.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

INITIAL = -1
"""What is read before anything was written: an OffsetFetch without a commit answers -1."""


class Kind(Enum):
    """What an operation does."""

    WRITE = "write"
    READ = "read"


class Operation(NamedTuple):
    """A call of a client.

    Attributes:
        kind: whether it writes or reads.
        value: what was written or read; the values of all writes differ.
        begin: when it was sent, in any unit.
        end: when its answer came; infinite for a write without an answer.
        client: for the message.
    """

    kind: Kind
    value: int
    begin: float
    end: float = math.inf
    client: str = ""

    def __str__(self) -> str:
        who = f"{self.client} " if self.client else ""
        return f"{who}{self.kind.value} {self.value} [{self.begin:.4f}, {self.end:.4f}]"


class Zone(NamedTuple):
    """The operations of one value.

    Attributes:
        value: the value.
        first_end: the earliest end of its operations.
        last_begin: the latest begin of its operations.
    """

    value: int
    first_end: float
    last_begin: float

    def contradicts(self, other: "Zone") -> bool:
        """Return whether each value must have come before the other."""
        return self.first_end < other.last_begin and other.first_end < self.last_begin


def contradiction(history: Iterable[Operation]) -> str | None:
    """Return what no order explains, with the operations; None if the history is linearizable.

    Args:
        history: the operations in any order, without reads that have no answer.

    Raises:
        AssertionError: two writes have one value.
    """
    by_value: dict[int, list[Operation]] = {}
    for operation in history:
        by_value.setdefault(operation.value, []).append(operation)
    zones = []
    for value, operations in by_value.items():
        found = _of_one_value(value, operations)
        if isinstance(found, str):
            return found
        if found is not None:
            zones.append(found)
    pair = _contradicting(zones)
    if pair is None:
        return None
    told = [str(each) for zone in pair for each in _deciding(by_value[zone.value])]
    return "two values must each come before the other: " + "; ".join(told)


def _deciding(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations of one value that ended first and began last, in order."""
    ends_first = min(operations, key=lambda each: each.end)
    begins_last = max(operations, key=_begin)
    return [ends_first] if ends_first is begins_last else [ends_first, begins_last]


def _begin(operation: Operation) -> float:
    return operation.begin


def _of_one_value(value: int, operations: Sequence[Operation]) -> Zone | str | None:
    """Return the zone of a value, what is wrong with it, or None if nobody saw it."""
    writes = [each for each in operations if each.kind is Kind.WRITE]
    reads = [each for each in operations if each.kind is Kind.READ]
    assert len(writes) <= 1, f"{value} was written twice: {', '.join(map(str, writes))}"
    if not writes and value != INITIAL:
        return f"never written: {min(reads, key=_begin)}"
    write = writes[0] if writes else Operation(Kind.WRITE, INITIAL, -math.inf, -math.inf)
    early = [each for each in reads if each.end < write.begin]
    if early:
        return f"read before it was written: {early[0]}; {write}"
    if not reads and math.isinf(write.end):
        return None
    both = [write, *reads]
    return Zone(value, min(each.end for each in both), max(each.begin for each in both))


def _contradicting(zones: Sequence[Zone]) -> tuple[Zone, Zone] | None:
    """Return two zones that contradict each other.

    Zones that last (`first_end` before `last_begin`) must not overlap; so it is enough to compare
    neighbours, and each other zone with the last of them that begins before it.
    """
    lasting = sorted(
        (each for each in zones if each.first_end < each.last_begin),
        key=lambda zone: zone.first_end,
    )
    for earlier, later in pairwise(lasting):
        if earlier.contradicts(later):
            return earlier, later
    begins = [each.first_end for each in lasting]
    for zone in zones:
        if zone.first_end >= zone.last_begin:
            at = bisect_left(begins, zone.last_begin)
            if at and lasting[at - 1].contradicts(zone):
                return lasting[at - 1], zone
    return None
