"""Clients delete `__consumer_offsets`, as Kafka allows [topics/offsets-topic-deletion]."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.groups import commit, committed, join, stable_member
from tests.unit.server.manual import (
    COMMIT,
    Client,
    logged,
    make_broker,
    restarted,
    run,
    wait_for_disk,
)
from tests.unit.server.test_txn_offset_commit import commit as transactional_commit
from tests.unit.server.test_txn_offset_commit import end, fetched, make_client

DELETION = DeleteTopicsRequest(
    topics=[DeleteTopicsRequestTopic(name=OFFSETS_TOPIC)], timeout_ms=1000
)


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    client.broker.controller.create("t", 2, {})
    client.call(commit(5), 8)
    assert committed(client) == [5]
    return client


def delete(client: Client) -> int:
    return int(client.call(DELETION, 6).responses[0].error_code)


def find(client: Client) -> int:
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    return int(client.call(request, 4).coordinators[0].error_code)


def fetch_error(client: Client) -> int:
    """Return the error of a fetch of all offsets of a group [offsets/fetch-before-the-topic]."""
    return int(client.call(OffsetFetchRequest(group_id="g", topics=None), 7).error_code)


def topic(client: Client) -> Any:
    """Return the description of the topic in a list of all; None if it is not in it."""
    found = client.call(MetadataRequest(topics=None), 12).topics
    return next((each for each in found if each.name == OFFSETS_TOPIC), None)


def test_all_groups_are_gone_and_the_topic_appears_with_the_next_use(client: Client) -> None:
    member, generation = stable_member(client)
    before = topic(client)
    assert delete(client) == ErrorCode.NONE
    client.loop.turn()
    assert topic(client) is None
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
    assert client.call(heartbeat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch_error(client) == ErrorCode.NOT_COORDINATOR
    assert find(client) == ErrorCode.NONE
    assert committed(client) == [-1]
    after = topic(client)
    assert after.topic_id != before.topic_id
    assert len(after.partitions) == len(before.partitions)
    stable_member(client)
    client.call(commit(6, group_id="h"), 8)
    assert committed(client, group="h") == [6]


def test_delayed_requests_are_answered(client: Client) -> None:
    client.broker.config.record({"group.initial.rebalance.delay.ms": "3000"})
    other = Client(client.broker)
    member, _ = stable_member(other)
    joined = client.call(join(), 9)
    client.send(join(joined.member_id), 9)
    client.loop.turn()
    assert client.answers() == []
    assert member
    assert delete(Client(client.broker)) == ErrorCode.NONE
    ((_, answer),) = client.answers()
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


def test_groups_begin_anew_after_a_restart(client: Client) -> None:
    assert delete(client) == ErrorCode.NONE
    client.loop.turn()
    client.call(commit(7), 8)
    for killed in (True, False):
        client = Client(restarted(client.broker, killed=killed))
        assert committed(client) == [7]
    assert delete(client) == ErrorCode.NONE
    client.loop.turn()
    client.call(commit(8, 1), 8)
    assert committed(client, 0, 1) == [-1, 8]


def test_deletion_that_a_crash_interrupted_is_finished_by_the_start(client: Client) -> None:
    client.broker._data.delete_topic(OFFSETS_TOPIC)
    client.broker._data._lock.release()
    client = Client(make_broker(filesystem=client.broker._data.files.filesystem, is_new=True))
    assert topic(client) is None
    assert find(client) == ErrorCode.NONE
    assert committed(client) == [-1]
    client.call(commit(7), 8)
    run(client.broker, client.broker.begin())
    client.loop.advance(1)
    assert client.broker._data.deleted_topics == {}
    assert committed(Client(restarted(client.broker, killed=True))) == [7]


def test_deletion_that_did_not_begin_loads_the_groups_again() -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    client = Client(make_broker(filesystem=faulty))
    client.broker.controller.create("t", 2, {})
    client.call(commit(5), 8)
    faulty.fail_at("rename", 1)
    assert delete(client) == ErrorCode.KAFKA_STORAGE_ERROR
    run(client.broker, client.broker.groups.load())
    assert committed(client) == [5]
    client.call(commit(6), 8)
    assert committed(client) == [6]


def test_topic_that_cannot_be_created_is_created_for_the_next_client() -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    client = Client(make_broker(filesystem=faulty))
    faulty.fail_at("make_directory", 1)
    client.call(DELETION, 6)
    client.loop.turn()
    assert logged(client.broker, "partitions not created")
    assert find(client) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    client.loop.turn()
    assert find(client) == ErrorCode.NONE
    stable_member(client)


def test_commit_that_is_not_durable_is_not_acknowledged() -> None:
    client = Client(make_broker(flush=COMMIT))
    client.broker.controller.create("t", 2, {})
    client.send(commit(5), 8)
    other = Client(client.broker)
    other.send(DELETION, 6)
    wait_for_disk(other)
    ((_, answer),) = client.answers()
    error = answer.topics[0].partitions[0].error_code
    assert error == ErrorCode.NOT_COORDINATOR
    ((_, deleted),) = other.answers()
    assert deleted.responses[0].error_code == ErrorCode.NONE


def test_marker_finds_no_pending_offsets_any_more() -> None:
    client = make_client()
    client.call(transactional_commit(), 3)
    assert fetched(client, stable=True)[0] == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert delete(client) == ErrorCode.NONE
    client.loop.turn()
    results = end(client.broker, committed=True)
    client.loop.turn()
    assert results == [ErrorCode.NONE]
    assert fetched(client, stable=True)[0] == (-1, ErrorCode.NONE)


def test_failure_at_any_write_leaves_a_working_coordinator() -> None:
    """Each write of a deletion fails once; groups are kept or gone, and served afterwards."""
    kept = 0
    for failing in range(1, 60):
        faulty = FaultyFileSystem(MemoryFileSystem())
        settings = {"offsets.topic.num.partitions": "1"}
        client = Client(make_broker(settings, filesystem=faulty))
        client.broker.controller.create("t", 2, {})
        client.call(commit(5), 8)
        faulty.fail_at("writing", failing)
        error = delete(client)
        client.loop.advance(1)
        if not faulty.failed:
            break
        while find(client) != ErrorCode.NONE:
            client.loop.turn()
        run(client.broker, client.broker.groups.load())
        if logged(client.broker, "group partition not loaded"):
            # Its new log could not be opened, so it is served again after a restart.
            client = Client(restarted(client.broker, killed=True))
        (found,) = committed(client)
        assert found == -1 or (error and found == 5)
        kept += found == 5
        client.call(commit(6), 8)
        assert committed(client) == [6]
        again = Client(restarted(client.broker, killed=True))
        assert committed(again) == [6]
    assert kept
    assert failing > 5
