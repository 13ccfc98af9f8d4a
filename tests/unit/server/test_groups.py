"""The coordinator at work: answers that wait for the log, timers, restarts, and logs that fail."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.list_groups import ListGroupsRequest
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
from coterie.protocol.records import encode_batch, iterate_batches
from coterie.server.groups import appends as group_appends
from coterie.storage.memory_filesystem import MemoryFile
from tests.unit.server.manual import COMMIT, Client, make_broker
from tests.unit.server.produced import fetch_request
from tests.unit.server.test_handlers_produce import wait_for_disk


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    client.broker.topics.create("t", 2, {})
    return client


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


def committed(client: Client, *partitions: int, group: str = "g") -> list[int]:
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=list(partitions or (0,)))]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    (found,) = client.call(request, 8).groups
    return [each.committed_offset for each in found.topics[0].partitions]


def stable_member(client: Client) -> tuple[str, int]:
    """Join and sync; member id and generation."""
    member_id = client.call(join(), 9).member_id
    client.send(join(member_id), 9)
    client.loop.advance(5)
    ((_, joined),) = client.answers()
    assert (joined.error_code, joined.leader) == (0, member_id)
    synced = client.call(sync(member_id, joined.generation_id, b"mine"), 5)
    assert synced.assignment == b"mine"
    return member_id, joined.generation_id


def batches_of(client: Client) -> list[int]:
    """Records per batch of the group's log."""
    partition = client.broker.coordinator.partition_for("g")
    log = client.broker.topics.by_name["__consumer_offsets"].partitions[partition].log
    return [header.record_count for _, header in iterate_batches(log.read(0, 1 << 24))]


def test_a_group_forms_heartbeats_commits_and_leaves(client: Client) -> None:
    member_id, generation_id = stable_member(client)
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id=member_id)
    assert client.call(heartbeat, 4).error_code == 0
    answer = client.call(
        commit(7, member_id=member_id, generation_id_or_member_epoch=generation_id), 8
    )
    assert answer.topics[0].partitions[0].error_code == 0
    assert committed(client) == [7]
    (group,) = client.call(ListGroupsRequest(states_filter=[], types_filter=[]), 5).groups
    assert (group.group_id, group.group_state) == ("g", "Stable")
    (described,) = client.call(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert described.members[0].client_host == "/127.0.0.1"
    assert described.members[0].client_id == "test"
    leave = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequestMember(member_id=member_id)])
    assert client.call(leave, 5).members[0].error_code == 0
    assert client.call(heartbeat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_two_members_join_in_one_generation(client: Client) -> None:
    other = Client(client.broker, "other")
    stable_member(client)
    other_id = other.call(join(), 9).member_id
    other.send(join(other_id), 9)
    client.loop.advance(1000)
    assert other.answers() == []
    leader_id = next(iter(client.broker.coordinator.group("g").members))
    client.send(join(leader_id), 9)
    client.loop.turn()
    ((_, mine),), ((_, theirs),) = client.answers(), other.answers()
    assert mine.generation_id == theirs.generation_id == 2
    assert (len(mine.members), len(theirs.members)) == (2, 0)


def test_a_member_that_is_silent_expires_by_the_brokers_timer(client: Client) -> None:
    member_id, generation_id = stable_member(client)
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id=member_id)
    client.loop.advance(9_000)
    assert client.call(heartbeat, 4).error_code == 0
    client.loop.advance(9_000)
    assert client.call(heartbeat, 4).error_code == 0
    client.loop.advance(10_500)
    assert client.call(heartbeat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_of_one_turn_are_one_batch_and_an_operation_is_never_split(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.connection.data_received(
        b"".join(client.frame(commit(offset, 0, 1), 8) for offset in range(10))
    )
    client.loop.turn()
    assert len(client.answers()) == 10
    assert batches_of(client) == [20]
    monkeypatch.setattr(group_appends, "MAX_BATCH_BYTES", 61 + 3 * 2 * 80)
    client.connection.data_received(
        b"".join(client.frame(commit(offset, 0, 1), 8) for offset in range(10))
    )
    client.loop.turn()
    counts = batches_of(client)[1:]
    assert sum(counts) == 20
    assert len(counts) > 1
    assert all(count % 2 == 0 for count in counts)


def test_a_commit_too_large_for_a_batch_is_refused_and_those_behind_it_are_not(
    client: Client,
) -> None:
    client.broker.topics.create("wide", 300, {})
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1, committed_metadata="m" * 4096
        )
        for index in range(300)
    ]
    wide = OffsetCommitRequestTopic(name="wide", partitions=partitions)
    client.send(commit(2), 8)
    client.send(commit(3, topics=[wide]), 8)
    client.send(commit(4, 1), 8)
    client.loop.turn()
    codes = [answer.topics[0].partitions[0].error_code for _, answer in client.answers()]
    # Kafka's translation of MESSAGE_TOO_LARGE (spec section 2.1).
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert committed(client, 0, 1) == [2, 4]


def test_a_restart_knows_groups_and_offsets(client: Client) -> None:
    member_id, generation_id = stable_member(client)
    client.call(commit(7, member_id=member_id, generation_id_or_member_epoch=generation_id), 8)
    filesystem = client.broker._data.files.filesystem
    client.broker._data.close()
    again = Client(make_broker(filesystem=filesystem))
    assert committed(again) == [7]
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id=member_id)
    assert again.call(heartbeat, 4).error_code == 0


def test_until_they_are_loaded_groups_are_told_to_wait() -> None:
    client = Client(make_broker(load=False))
    client.broker.topics.create("t", 1, {})
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert client.call(join(), 9).error_code == code
    assert client.call(commit(1), 8).topics[0].partitions[0].error_code == code
    # Heartbeats are told nothing, so that members do not rejoin (quirk 1).
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert client.call(heartbeat, 4).error_code == 0


def test_a_log_that_can_not_be_replayed_is_out_of_service_and_the_others_are_not(
    client: Client,
) -> None:
    coordinator = client.broker.coordinator
    partition = coordinator.partition_for("g")
    other = next(name for name in "abcdefgh" if coordinator.partition_for(name) != partition)
    for group in ("g", other):
        client.call(commit(7, group_id=group), 8)
    # A value of a version that nobody knows fails the load (spec section 14.1).
    key = bytes.fromhex("0001000167000174") + bytes(4)
    log = client.broker.topics.by_name["__consumer_offsets"].partitions[partition].log
    log.append(encode_batch([(key, b"\x00\x63")], log.log_end_offset, 0))
    filesystem = client.broker._data.files.filesystem
    client.broker._data.close()
    again = Client(make_broker(filesystem=filesystem))
    (line,) = again.broker.log.named("group partition not loaded")  # type: ignore[attr-defined]
    assert line["partition"] == partition
    refused = again.call(commit(9), 8).topics[0].partitions[0]
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    assert committed(again, group=other) == [7]


class TestDisk:
    def test_with_flush_commit_nothing_is_acknowledged_before_the_sync(self) -> None:
        client = Client(make_broker(flush=COMMIT))
        client.broker.topics.create("t", 2, {})
        client.send(commit(7), 8)
        assert client.answers() == []
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        assert answer.topics[0].partitions[0].error_code == 0
        client.broker.flusher.stop()

    def test_a_failed_sync_fails_the_commit_and_the_partition_for_good(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = Client(make_broker(flush=COMMIT))
        client.broker.topics.create("t", 2, {})
        client.send(commit(6), 8)
        wait_for_disk(client)
        client.answers()

        def fail(_file: MemoryFile) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(MemoryFile, "sync", fail)
        client.send(commit(7), 8)
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        code = answer.topics[0].partitions[0].error_code
        assert code == ErrorCode.NOT_COORDINATOR
        monkeypatch.undo()
        again = client.call(commit(8), 8)
        assert again.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert not client.broker.fatal.done()
        client.broker.flusher.stop()

    def test_without_any_partition_the_broker_gives_up(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = Client(make_broker({"offsets.topic.num.partitions": "1"}))
        client.broker.topics.create("t", 2, {})

        def fail(_file: MemoryFile, _position: int, _data: bytes) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(MemoryFile, "write", fail)
        client.send(commit(7), 8)
        client.loop.turn()
        ((_, answer),) = client.answers()
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert "no partition of __consumer_offsets" in client.broker.fatal.result()


def test_a_consumer_can_read_the_groups_log(client: Client) -> None:
    partition = client.broker.coordinator.partition_for("g")
    reader = Client(client.broker)
    request = fetch_request((partition, 0), topic="__consumer_offsets", max_wait_ms=1000)
    reader.send(request, 12)
    client.call(commit(7), 8)
    reader.loop.turn()
    ((_, answer),) = reader.answers()
    assert answer.responses[0].partitions[0].high_watermark == 1


def test_deleting_a_topic_forgets_its_offsets(client: Client) -> None:
    from coterie.protocol.messages.delete_topics import (
        DeleteTopicsRequest,
        DeleteTopicsRequestTopic,
    )

    client.call(commit(7), 8)
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")], timeout_ms=1000)
    assert client.call(request, 6).responses[0].error_code == 0
    assert committed(client) == [-1]
