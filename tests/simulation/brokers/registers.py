"""Clients that commit and fetch offsets of groups without members: registers of one value each.

A group has several writers, and readers that ask any broker, whether it is in charge or not. The
history of all calls must be linearizable (K4).
"""

from itertools import count
from typing import TYPE_CHECKING

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.simulation.brokers.clients import MOVED, Ask, Steps
from tests.simulation.checks.violation import require

if TYPE_CHECKING:
    from tests.simulation.brokers.world import World

TOPIC = "records"
_COMMIT_VERSION, _FETCH_VERSION = 7, 8
# How often a reader asks any broker instead of the coordinator.
_ASKS_ANYWHERE = 0.4
# How often it does not mind that a transaction has not ended.
_TAKES_OLDER = 0.1


def commit_request(
    group_id: str, offset: int, index: int = 0, topic: str = TOPIC
) -> OffsetCommitRequest:
    """Return a commit of one partition by a client that is no member."""
    partition = OffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )


def fetch_request(group_id: str, *, stable: bool = True) -> OffsetFetchRequest:
    """Return a request for the offset of partition 0.

    Args:
        group_id: the group.
        stable: whether it is refused while a transaction that has an offset has not ended.
    """
    topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=[topic])], require_stable=stable
    )


def writer(world: "World", name: str, group_id: str, values: "count[int]") -> Steps:
    """Commit one value after the other."""
    register = world.ledger.register(group_id)
    for value in values:
        write = register.writes(value, world.moment())
        answer = yield Ask(commit_request(group_id, value), _COMMIT_VERSION)
        error = None if answer is None else answer.topics[0].partitions[0].error_code
        require(error is None or not error or error in MOVED, "K7", f"{name} is answered {error}")
        write.answered(world.moment(), acknowledged=error == ErrorCode.NONE)
        yield world.pause_ms()


def reader(world: "World", name: str, group_id: str) -> Steps:
    """Fetch the offset again and again."""
    register = world.ledger.register(group_id)
    while True:
        begin = world.moment()
        anywhere = world.chance.random() < _ASKS_ANYWHERE
        stable = world.chance.random() >= _TAKES_OLDER
        answer = yield Ask(fetch_request(group_id, stable=stable), _FETCH_VERSION, anywhere)
        if answer is not None:
            (group,) = answer.groups
            if group.error_code:
                refused = group.error_code in MOVED
                require(refused, "K7", f"{name} is answered {group.error_code}")
            else:
                found = group.topics[0].partitions[0]
                if found.error_code:
                    # The offset of a transaction that has not ended hides it.
                    unstable = found.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
                    require(unstable, "K7", f"{name} is answered {found.error_code}")
                elif not stable:
                    register.glanced(found.committed_offset)
                else:
                    register.read(name, found.committed_offset, begin, world.moment())
        yield world.pause_ms()
