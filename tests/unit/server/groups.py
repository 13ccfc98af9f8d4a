"""Requests of a member of the group "g" to the topic "t", for the tests of groups."""

from typing import Any

from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
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
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.server.manual import Client


def join(member_id: str = "", **fields: Any) -> JoinGroupRequest:
    values = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 20_000, **fields}
    return JoinGroupRequest(
        group_id="g",
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
        **values,
    )


def sync(member_id: str, generation_id: int, assignment: bytes) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="g",
        member_id=member_id,
        generation_id=generation_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)],
    )


def commit(offset: int, *partitions: int, **fields: Any) -> OffsetCommitRequest:
    topic = OffsetCommitRequestTopic(
        name="t",
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=""
            )
            for index in partitions or (0,)
        ],
    )
    return OffsetCommitRequest(**{"group_id": "g", "topics": [topic], "member_id": "", **fields})


def fetch_committed(*partitions: int, group: str = "g") -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=list(partitions or (0,)))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])


def committed(client: Client, *partitions: int, group: str = "g") -> list[int]:
    """Fetch committed offsets."""
    (found,) = client.call(fetch_committed(*partitions, group=group), 8).groups
    return [each.committed_offset for each in found.topics[0].partitions]


def stable_member(client: Client) -> tuple[str, int]:
    """Join and sync as the only member; return member id and generation."""
    member_id = client.call(join(), 9).member_id
    client.send(join(member_id), 9)
    client.loop.advance(5)
    ((_, joined),) = client.answers()
    assert (joined.error_code, joined.leader) == (0, member_id)
    synced = client.call(sync(member_id, joined.generation_id, b"mine"), 5)
    assert synced.assignment == b"mine"
    return member_id, joined.generation_id
