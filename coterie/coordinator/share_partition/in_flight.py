"""The records in flight of a share partition: batches, and states that several records share.

A batch is what was acquired at once, and keeps its borders. Its records share one state until a
member acknowledges, or can be given, a part of them only; then each record has its own
[share-partitions/record-states]. Neighbours that are equal share an object all the same: a
member that acknowledges record by record would leave one for each.

Invariants: batches are in the order of offsets and do not overlap; the states of a batch cover it
without a hole; a record that is ACQUIRED has a member, and no other has.
"""

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from coterie.coordinator.share_partition.states import (
    ACQUIRED,
    FINAL_STATES,
    RecordState,
    StateBatch,
)

NO_MEMBER = ""
_first_offset = attrgetter("first_offset")


class StateWrite(NamedTuple):
    """What is to be persisted of a share partition.

    Attributes:
        start_offset: the start offset before what is written has moved it, as in Kafka
            [share-partitions/start-offset].
        delivery_complete_count: how many records behind it are final, the written ones included.
        batches: the states, in the order of offsets.
    """

    start_offset: int
    delivery_complete_count: int
    batches: list[StateBatch]


class Transition:
    """States that were entered and are being written.

    Attributes:
        member_id: the member that has acknowledged the records.
        ranges: first and last offsets of the records.
        write: what is to be persisted; None if nothing is, so that nothing is waited for.
        given_up: the records that were released for the last time.
    """

    __slots__ = ("given_up", "member_id", "ranges", "write")

    def __init__(self, member_id: str) -> None:
        """Start without records."""
        self.member_id = member_id
        self.ranges: list[tuple[int, int]] = []
        self.write: StateWrite | None = None
        self.given_up: list[StateBatch] = []


class InFlightState:
    """The state that records of a batch share.

    Attributes:
        first_offset, last_offset: the records.
        state: their state; while it is written, the state that they get.
        delivery_count: how often they were delivered.
        member_id: who has acquired them.
        writing: the transition to `state` that is being written; None if none is.
        lock_expired: whether the lock has expired while an acknowledgement is being written.
    """

    __slots__ = (
        "delivery_count", "first_offset", "last_offset", "lock_expired", "member_id", "state",
        "writing",
    )  # fmt: skip

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        state: RecordState,
        delivery_count: int,
        member_id: str = NO_MEMBER,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.writing: Transition | None = None
        self.lock_expired = False

    def __repr__(self) -> str:
        count = self.delivery_count
        return f"InFlightState({self.first_offset}-{self.last_offset} {self.state.name} {count})"

    @property
    def records(self) -> int:
        """How many offsets it covers."""
        return self.last_offset - self.first_offset + 1

    @property
    def is_final(self) -> bool:
        """Whether the records are done, and that is durable."""
        return self.writing is None and self.state in FINAL_STATES

    @property
    def can_be_acquired(self) -> bool:
        """Whether a member may be given the records now."""
        return self.writing is None and self.state is RecordState.AVAILABLE

    def cut(self, offset: int) -> "InFlightState":
        """Leave the records from an offset on to another state, which is returned."""
        assert self.first_offset < offset <= self.last_offset, f"{offset} is no border in {self}"
        rest = InFlightState(
            offset, self.last_offset, self.state, self.delivery_count, self.member_id
        )
        rest.writing, rest.lock_expired = self.writing, self.lock_expired
        self.last_offset = offset - 1
        return rest

    def is_as(self, other: "InFlightState") -> bool:
        """Return whether the records of both are done, and equal."""
        return (
            self.is_final
            and other.is_final
            and self.state is other.state
            and self.delivery_count == other.delivery_count
        )

    def enter(self, state: RecordState) -> None:
        """Enter a state other than ACQUIRED."""
        assert state is not ACQUIRED, "records are acquired by a member"
        self.state = state
        self.member_id = NO_MEMBER

    def batch(self) -> StateBatch:
        """Return the state as it is persisted."""
        return StateBatch(self.first_offset, self.last_offset, self.state, self.delivery_count)


class InFlightBatch:
    """A batch of records.

    Attributes:
        first_offset, last_offset: its borders.
        states: the states of its records, in order: one, or those of the parts.
        is_split: whether each record has its own state; several may share an object.
    """

    __slots__ = ("first_offset", "is_split", "last_offset", "states")

    def __init__(self, state: InFlightState) -> None:
        """Start with one state for all records."""
        self.first_offset = state.first_offset
        self.last_offset = state.last_offset
        self.states = [state]
        self.is_split = False

    @property
    def records(self) -> int:
        """How many offsets it covers."""
        return self.last_offset - self.first_offset + 1

    def cut(self, offset: int) -> tuple[InFlightState, InFlightState] | None:
        """Let a state begin at an offset; return what was one before, None if nothing changes."""
        if not self.first_offset < offset <= self.last_offset:
            return None
        behind = bisect_right(self.states, offset, key=_first_offset)
        state = self.states[behind - 1]
        if state.first_offset == offset:
            return None
        rest = state.cut(offset)
        self.states.insert(behind, rest)
        return state, rest

    def join(self, first_offset: int, last_offset: int) -> None:
        """Join the states of a range, and their neighbours, where they are done and equal."""
        states = self.states
        begin = max(0, bisect_right(states, first_offset, key=_first_offset) - 2)
        end = bisect_right(states, last_offset, key=_first_offset) + 1
        joined = [states[begin]]
        for state in states[begin + 1 : end]:
            if joined[-1].is_as(state):
                joined[-1].last_offset = state.last_offset
            else:
                joined.append(state)
        states[begin:end] = joined

    def states_within(self, first_offset: int, last_offset: int) -> list[InFlightState]:
        """Return the states of the records of a range; the first and last may reach beyond it."""
        if not self.is_split:
            return self.states
        if first_offset > self.last_offset:
            return []
        begin = max(0, bisect_right(self.states, first_offset, key=_first_offset) - 1)
        return self.states[begin : bisect_right(self.states, last_offset, key=_first_offset)]

    def state_at(self, offset: int) -> InFlightState:
        """Return the state of one of its records."""
        return self.states[bisect_right(self.states, offset, key=_first_offset) - 1]


class InFlightBatches:
    """The batches of a share partition, by offset."""

    __slots__ = ("_batches", "_firsts")

    def __init__(self) -> None:
        """Start without batches."""
        self._batches: list[InFlightBatch] = []
        self._firsts: list[int] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first(self) -> InFlightBatch:
        """The first batch; there is one."""
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        """The last batch; there is one."""
        return self._batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch that overlaps no other."""
        index = bisect_right(self._firsts, batch.first_offset)
        before = self._batches[index - 1] if index else None
        behind = self._batches[index] if index < len(self._batches) else None
        assert before is None or before.last_offset < batch.first_offset, "batches overlap"
        assert behind is None or batch.last_offset < behind.first_offset, "batches overlap"
        self._batches.insert(index, batch)
        self._firsts.insert(index, batch.first_offset)

    def at_or_before(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before an offset."""
        index = bisect_right(self._firsts, offset)
        return self._batches[index - 1] if index else None

    def within(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches that overlap a range."""
        begin = bisect_right(self._firsts, first_offset)
        if begin and self._batches[begin - 1].last_offset >= first_offset:
            begin -= 1
        return self._batches[begin : bisect_right(self._firsts, last_offset)]

    def state_at(self, offset: int) -> InFlightState | None:
        """Return the state of a record in flight."""
        batch = self.at_or_before(offset)
        return None if batch is None or batch.last_offset < offset else batch.state_at(offset)

    def remove_front(self, count: int) -> None:
        """Forget the first batches."""
        del self._batches[:count]
        del self._firsts[:count]
