"""What a test sees of share groups (KIP-932): the records in flight with their locks.

What is in flight is in the memory of the broker that leads the partition. Without a session of the
group the leader has forgotten it, and what the share coordinator keeps counts
[share-partitions/leader]. Everything here is for the thread of the brokers.
"""

from collections.abc import Iterable, Mapping, Sequence

from coterie.coordinator.share_partition.partition import SharePartition as Tracked
from coterie.coordinator.share_state.requests import NO_OFFSET, ShareKey
from coterie.coordinator.share_state.share_state import ShareState
from coterie.protocol.errors import ErrorCode
from coterie.server.broker import Broker
from coterie.server.config.share_leaders import LATEST
from coterie.server.share.seen_records import FINAL_NAMES, SharePartition, in_flight, tracked_by
from coterie.testing.members import Member, Partition

# Of a partition a picture shows so many ranges of records.
_SHOWN_RANGES = 10


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
    return SharePartition(tracked.start_offset, end, tuple(in_flight(tracked, now_ms)))


def _tracked(servers: Sequence[Broker], key: ShareKey, now_ms: int) -> Tracked | None:
    """Return what the leader knows of a share partition, or would know after it has read it."""
    tracked = tracked_by(servers, key)
    if tracked is not None:
        return tracked
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
        if each.first_offset > offset or each.state not in FINAL_NAMES:
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
