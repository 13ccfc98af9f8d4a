"""The records that a share group has in flight (KIP-932), as people see them: who has locked what.

They are in the memory of the broker that leads the partition, so everything here is for the thread
of the brokers. The tests of users see them, and the console.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coterie.coordinator.share_partition.in_flight import InFlightState
from coterie.coordinator.share_partition.partition import SharePartition as Tracked
from coterie.coordinator.share_partition.states import FINAL_STATES, RecordState
from coterie.coordinator.share_state.requests import ShareKey

if TYPE_CHECKING:
    from coterie.server.broker import Broker


class InFlight(NamedTuple):
    """Records of a share group between its start offset and the last one that was acquired.

    Attributes:
        first_offset, last_offset: the records, both included.
        state: Kafka's name of their state: AVAILABLE, ACQUIRED, ACKNOWLEDGED or ARCHIVED.
        delivery_count: how often they were delivered.
        member_id: who has acquired them; None for nobody.
        lock_ms: how long they are locked from now on; None if they are not.
    """

    first_offset: int
    last_offset: int
    state: str
    delivery_count: int
    member_id: str | None
    lock_ms: int | None

    @property
    def record_count(self) -> int:
        """How many offsets it covers."""
        return self.last_offset - self.first_offset + 1

    def __str__(self) -> str:
        """Describe it: "offset 4: ACQUIRED by m1, delivery 2, locked for 12.3 s more"."""
        return self.described({})

    def described(self, names: Mapping[str, str], limit: int | None = None) -> str:
        """Describe it with names by member id, and with the most deliveries if they are known."""
        who = ""
        if self.member_id is not None:
            who = f" by {names.get(self.member_id, f'{self.member_id}, which is no member')}"
        most = "" if limit is None else f" of at most {limit}"
        lock = "" if self.lock_ms is None else f", locked for {self.lock_ms / 1000:.1f} s more"
        where = offsets_text(self.first_offset, self.last_offset)
        return f"{where}: {self.state}{who}, delivery {self.delivery_count}{most}{lock}"


class SharePartition(NamedTuple):
    """A partition as a share group reads it.

    Attributes:
        start_offset: the first record that is not done; None before the first fetch, which decides
            where the group begins.
        end_offset: the end of the log; None while nothing leads the partition.
        records: the records in flight, in order.
    """

    start_offset: int | None
    end_offset: int | None
    records: tuple[InFlight, ...]

    @property
    def locks(self) -> tuple[InFlight, ...]:
        """The records that members have acquired."""
        return tuple(each for each in self.records if each.member_id is not None)

    @property
    def lag(self) -> int | None:
        """How many records are not done; None as long as it is not known where the group begins."""
        if self.start_offset is None or self.end_offset is None:
            return None
        final = sum(each.record_count for each in self.records if each.state in FINAL_NAMES)
        return max(0, self.end_offset - self.start_offset - final)


FINAL_NAMES = tuple(each.name for each in FINAL_STATES)


def offsets_text(first_offset: int, last_offset: int) -> str:
    """Return "offset 4" or "offsets 4-9"."""
    if first_offset == last_offset:
        return f"offset {first_offset}"
    return f"offsets {first_offset}-{last_offset}"


def tracked_by(brokers: Iterable["Broker"], key: ShareKey) -> Tracked | None:
    """Return what the leader of a partition knows of it for a share group; None without sessions.

    Args:
        brokers: those that run.
        key: group and partition.
    """
    loaded = [each for one in brokers if (each := one.share.known(key)) is not None]
    # An earlier leader may not have forgotten it yet.
    return max(loaded, key=lambda each: each.leader_epoch).share if loaded else None


def in_flight(tracked: Tracked, now_ms: int) -> Iterator[InFlight]:
    """Yield the records in flight; neighbours that are equal are one."""
    last: InFlight | None = None
    for batch in tracked.batches:
        for state in batch.states_within(tracked.start_offset, batch.last_offset):
            each = _seen_state(tracked, state, now_ms)
            if last is None:
                last = each
            elif last.last_offset + 1 == each.first_offset and last[2:] == each[2:]:
                last = last._replace(last_offset=each.last_offset)
            else:
                yield last
                last = each
    if last is not None:
        yield last


def _seen_state(tracked: Tracked, state: InFlightState, now_ms: int) -> InFlight:
    """Return a state as it is durable: what is being written is still acquired by its member."""
    writing = state.writing
    member_id = state.member_id if writing is None else writing.member_id
    is_held = writing is not None or state.state is RecordState.ACQUIRED
    deadline_ms = tracked.locks.deadline_ms(state.first_offset) if is_held else None
    return InFlight(
        max(state.first_offset, tracked.start_offset),
        state.last_offset,
        RecordState.ACQUIRED.name if is_held else state.state.name,
        state.delivery_count,
        member_id if is_held else None,
        None if deadline_ms is None else max(0, deadline_ms - now_ms),
    )
