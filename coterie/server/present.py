"""What a group does at this moment, beyond what requests of the protocol report.

Who has sent its JoinGroup, how long each member has been silent, and who has locked which records
are in the memory of the broker. They are read when a person looks at the group, in one turn of the
event loop; nothing is kept for it, so the requests of clients cost the same [console/inside].
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.share_state.requests import ShareKey
from coterie.protocol.errors import ErrorCode
from coterie.server.share.seen_records import InFlight, in_flight, tracked_by

if TYPE_CHECKING:
    from coterie.server.broker import Broker

# An event loop that does not answer for so long is held, as by a debugger.
_TIMEOUT_S = 10.0
# Of a share group so many ranges of records are looked at, which takes a millisecond.
MOST_RANGES = 500


class MemberSession(NamedTuple):
    """The session of a member at its coordinator.

    Attributes:
        member_id: its id.
        waits_for: the response that it waits for, JoinGroup or SyncGroup; None for none. Until it
            has that, its session does not end.
        silent_ms: how long ago its session was last started.
        timeout_ms: how long it may be silent.
    """

    member_id: str
    waits_for: str | None
    silent_ms: int
    timeout_ms: int


class InPartition(NamedTuple):
    """Records of a share group that are in flight, and where.

    Attributes:
        topic, partition: their partition.
        records: the records.
    """

    topic: str
    partition: int
    records: InFlight


class Present(NamedTuple):
    """What a group does now.

    Attributes:
        sessions: those of its members, by their ids.
        state: its state at that moment; None if it is not known.
        waits_for: in words for what it waits; None if it is at rest, or if that is not known.
        records: what is in flight in a share group, at most `MOST_RANGES` of them; None in other
            groups.
        delivery_limit: how often a record of a share group is delivered; None if it is not known.
    """

    sessions: Mapping[str, MemberSession]
    state: str | None = None
    waits_for: str | None = None
    records: tuple[InPartition, ...] | None = None
    delivery_limit: int | None = None


# It may be called in any thread, and returns None of a group that no broker of this process has.
ReadPresent = Callable[[str], Present | None]


def sessions_of(group: GroupLike, now_ms: int) -> tuple[MemberSession, ...]:
    """Return the sessions of the members of a group, in the order in which they joined."""
    return tuple(
        MemberSession(
            each.member_id,
            each.waits_for,
            max(0, now_ms - each.last_heard_ms),
            each.session_timeout_ms,
        )
        for each in group.seen_members()
    )


def read_present(brokers: Callable[[], Iterable["Broker"]], group_id: str) -> Present | None:
    """Return what a group does now; called in a thread that is not that of the brokers.

    Args:
        brokers: returns those that run.
        group_id: the group.

    Returns:
        None if no broker has the group, or none answers.
    """
    running = list(brokers())
    if not running:
        return None

    async def look() -> Present | None:
        return _present(running, group_id)

    looking = look()
    try:
        answer = asyncio.run_coroutine_threadsafe(looking, running[0].loop)
    except RuntimeError:
        # The loop is closed: the brokers have stopped meanwhile.
        looking.close()
        return None
    try:
        return answer.result(_TIMEOUT_S)
    except TimeoutError:
        return None


def _present(brokers: list["Broker"], group_id: str) -> Present | None:
    for broker in brokers:
        group = broker.coordinator.group(group_id)
        if group is None:
            continue
        now_ms = broker.now_ms()
        sessions = {each.member_id: each for each in sessions_of(group, now_ms)}
        present = Present(sessions, group.state_name, group.waits_for(now_ms))
        if not isinstance(group, ShareGroup):
            return present
        return present._replace(
            records=_records(broker, brokers, group_id),
            delivery_limit=broker.share.settings(group_id).delivery_limit,
        )
    return None


def _records(
    coordinator: "Broker", brokers: list["Broker"], group_id: str
) -> tuple[InPartition, ...]:
    topics = coordinator.coordinator.share_partitions(group_id)
    if isinstance(topics, ErrorCode):
        return ()
    places = sorted(
        (topic.name, index, topic_id)
        for topic_id, topic in topics.items()
        for index in topic.partitions
    )
    now_ms = coordinator.now_ms()
    found = (
        InPartition(name, index, each)
        for name, index, topic_id in places
        if (tracked := tracked_by(brokers, ShareKey(group_id, topic_id, index))) is not None
        for each in in_flight(tracked, now_ms)
    )
    return tuple(islice(found, MOST_RANGES))
