"""What a test sees of share groups (KIP-932): the records in flight with their locks.

What is in flight is in the memory of the broker that leads the partition. Without a session of the
group the leader has forgotten it, and what the share coordinator keeps counts
[share-partitions/leader]. Everything here is for the thread of the brokers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from coterie.coordinator.share_partition.in_flight import InFlightState
from coterie.coordinator.share_partition.partition import SharePartition as Tracked
from coterie.coordinator.share_partition.states import FINAL_STATES, RecordState
from coterie.coordinator.share_state.requests import NO_OFFSET, ShareKey
from coterie.coordinator.share_state.share_state import ShareState
from coterie.protocol.errors import ErrorCode
from coterie.server.broker import Broker
from coterie.server.config.share_leaders import LATEST
from coterie.testing.members import Member, Partition

# Of a partition a picture shows so many ranges of records.
_SHOWN_RANGES = 10


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
        final = sum(each.record_count for each in self.records if each.state in _FINAL_NAMES)
        return max(0, self.end_offset - self.start_offset - final)


_FINAL_NAMES = tuple(each.name for each in FINAL_STATES)


def offsets_text(first_offset: int, last_offset: int) -> str:
    """Return "offset 4" or "offsets 4-9"."""
    if first_offset == last_offset:
        return f"offset {first_offset}"
    return f"offsets {first_offset}-{last_offset}"


# --- records in flight ----------------------------------------------------------------------------


def share_partitions(server: Broker, group_id: str) -> dict[Partition, SharePartition]:
    """Return the partitions that a share group reads, in order; none of another group.

    Args:
        server: the broker that coordinates the group.
        group_id: the group.
    """
    servers = [each for each in server.shared.members if isinstance(each, Broker)]
    topics = server.coordinator.share_partitions(group_id)
    if isinstance(topics, ErrorCode):
        return {}
    found = {
        (topic.name, index): _share_partition(server, servers, ShareKey(group_id, topic_id, index))
        for topic_id, topic in topics.items()
        for index in topic.partitions
    }
    return dict(sorted(found.items()))


def _share_partition(server: Broker, servers: Sequence[Broker], key: ShareKey) -> SharePartition:
    topic = server.topics.by_id.get(key.topic_id)
    partition = None if topic is None else topic.partition(key.partition)
    if topic is None or partition is None:
        return SharePartition(None, None, ())
    server.logs.opener.open_now(partition)
    log = partition.opened_log
    end = None if log is None else log.log_end_offset
    now_ms = server.now_ms()
    tracked = _tracked(servers, key, now_ms)
    if tracked is None:
        return SharePartition(None, end, ())
    return SharePartition(tracked.start_offset, end, tuple(_in_flight(tracked, now_ms)))


def _tracked(servers: Sequence[Broker], key: ShareKey, now_ms: int) -> Tracked | None:
    """Return what the leader knows of a share partition, or would know after it has read it."""
    loaded = [each for one in servers if (each := one.share.known(key)) is not None]
    if loaded:
        # An earlier leader may not have forgotten it yet.
        return max(loaded, key=lambda each: each.leader_epoch).share
    state = _persisted(servers, key)
    if state is None or state.start_offset == NO_OFFSET:
        return None
    return Tracked(max(0, state.start_offset), now_ms, list(state.batches))


def _persisted(servers: Sequence[Broker], key: ShareKey) -> ShareState | None:
    """Return what the share coordinator keeps, on whichever broker it is."""
    for server in servers:
        coordinator = server.share_state.coordinator
        if coordinator.shards:
            state = coordinator.shards[coordinator.partition_for(key)].states.get(key)
            if state is not None:
                return state
    return None


def _in_flight(tracked: Tracked, now_ms: int) -> Iterator[InFlight]:
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


# --- conditions -----------------------------------------------------------------------------------


def is_done(found: Mapping[Partition, SharePartition], wanted: Mapping[Partition, int]) -> bool:
    """Return whether all records below these offsets are acknowledged or archived."""
    return all(
        (each := found.get(partition)) is not None
        and each.start_offset is not None
        and _done_to(each) >= offset
        for partition, offset in wanted.items()
    )


def _done_to(partition: SharePartition) -> int:
    """Return the first offset that is not done; final states may still be at the start."""
    offset = partition.start_offset or 0
    for each in partition.records:
        if each.first_offset > offset or each.state not in _FINAL_NAMES:
            break
        offset = each.last_offset + 1
    return offset


# --- for people -----------------------------------------------------------------------------------


def share_lines(
    server: Broker,
    group_id: str,
    found: Mapping[Partition, SharePartition],
    members: Iterable[Member],
) -> list[str]:
    """Describe the partitions of a share group in lines: where it is, and what is in flight."""
    settings = server.share.settings(group_id)
    names = {each.member_id: each.name for each in members}
    lines = []
    for (topic, index), each in found.items():
        lines.append(f"  {topic}-{index}: {_progress(each, settings.reset)}")
        shown = each.records[:_SHOWN_RANGES]
        lines += [f"    {one.described(names, settings.delivery_limit)}" for one in shown]
        if len(each.records) > len(shown):
            lines.append(f"    and {len(each.records) - len(shown)} more")
    return lines


def _progress(partition: SharePartition, reset: str) -> str:
    end = partition.end_offset
    if partition.start_offset is None:
        missed = ", so what is there by then is never delivered" if reset == LATEST and end else ""
        return f"end {end}; no fetch has decided yet where the group begins ({reset}{missed})"
    return f"begins at {partition.start_offset}, end {end}, {partition.lag} not done"
