"""Versions that Kafka 4.0 removed, but for message sets. The answers are those of Kafka 2.8.2."""

import errno
from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from coterie.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.protocol.messages.log_records import OffsetCommitValue
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from coterie.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from coterie.server.releases import Release
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.manual import Client, make_broker, open_log
from tests.unit.server.manual_loop import START_MS
from tests.unit.server.produced import batch, produce

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def client() -> Client:
    broker = make_broker()
    broker.pretend(Release.named("2.8"))
    broker.controller.create("t", 2, {})
    return Client(broker)


class TestListOffsets:
    @pytest.fixture
    def segments(self, client: Client) -> Client:
        """Write segments that begin at 0, 2 and 4, a day apart; the log ends at 5."""
        for day, values in enumerate([(b"a", b"b"), (b"c", b"d"), (b"e",)]):
            if day:
                open_log(client.broker, "t", 0).roll()
            produce(client, batch(*values, timestamp_ms=START_MS - (2 - day) * DAY_MS))
        return client

    @pytest.mark.parametrize(
        ("timestamp", "count", "offsets"),
        [
            (LATEST_TIMESTAMP, 1, [5]),
            (LATEST_TIMESTAMP, 9, [5, 4, 2, 0]),
            (LATEST_TIMESTAMP, 0, []),
            (EARLIEST_TIMESTAMP, 9, [0]),
            (START_MS - DAY_MS, 9, [2, 0]),
            (START_MS - DAY_MS, 1, [2]),
            (START_MS + DAY_MS, 2, [5, 4]),
            (START_MS - 3 * DAY_MS, 9, []),
            (-3, 9, []),
        ],
    )
    def test_offsets_of_segments(
        self, segments: Client, timestamp: int, count: int, offsets: list[int]
    ) -> None:
        assert listed(segments, timestamp, count) == (0, offsets)

    def test_log_that_is_empty_ends_where_it_begins(self, client: Client) -> None:
        assert listed(client, LATEST_TIMESTAMP, 9) == (0, [0])

    def test_errors(self, client: Client) -> None:
        assert listed(client, LATEST_TIMESTAMP, -1) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert listed(client, LATEST_TIMESTAMP, 1, topic="nope") == (unknown, [])
        assert listed(client, LATEST_TIMESTAMP, 1, partition=2) == (unknown, [])

    def test_partition_that_cannot_be_opened(self) -> None:
        faulty = FaultyFileSystem(MemoryFileSystem())
        broker = make_broker(filesystem=faulty)
        broker.pretend(Release.named("2.8"))
        broker.controller.create("t", 1, {})
        faulty.fail_at("list", 1, errno.EMFILE)
        assert listed(Client(broker), LATEST_TIMESTAMP, 1) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


def listed(
    client: Client, timestamp: int, count: int, *, topic: str = "t", partition: int = 0
) -> tuple[int, list[int]]:
    """Ask for offsets of one partition."""
    asked = ListOffsetsRequestPartition(
        partition_index=partition, timestamp=timestamp, max_num_offsets=count
    )
    topics = [ListOffsetsRequestTopic(name=topic, partitions=[asked])]
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=topics), 0)
    ((found,),) = [each.partitions for each in answer.topics]
    return found.error_code, found.old_style_offsets


class TestOffsets:
    def test_commit_of_version_0_is_fetched_in_every_version(self, client: Client) -> None:
        assert commit(client, 0, metadata="m") == 0
        assert [fetched(client, version) for version in (0, 1, 7)] == [(5, "m", 0)] * 3

    def test_missing_offset_is_an_error_in_version_0(self, client: Client) -> None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert fetched(client, 0) == (-1, "", unknown)
        assert fetched(client, 1) == (-1, "", 0)

    def test_commit_of_version_1_has_a_generation(self, client: Client) -> None:
        error = commit(client, 1, generation_id_or_member_epoch=3, member_id="x")
        assert error == ErrorCode.ILLEGAL_GENERATION

    @pytest.mark.parametrize(
        ("version", "timestamp", "stored"),
        [(1, 77, 77), (1, -1, START_MS), (2, 77, START_MS)],
    )
    def test_time_of_a_commit(
        self, client: Client, version: int, timestamp: int, stored: int
    ) -> None:
        assert commit(client, version, timestamp=timestamp) == 0
        assert committed(client).commit_timestamp == stored

    def test_unknown_partition(self, client: Client) -> None:
        assert commit(client, 0, partition=2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def commit(
    client: Client,
    version: int,
    *,
    partition: int = 0,
    metadata: str = "",
    timestamp: int = -1,
    **fields: Any,
) -> int:
    """Commit offset 5 of one partition; return the error."""
    asked = OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=5,
        committed_metadata=metadata,
        commit_timestamp=timestamp,
    )
    topics = [OffsetCommitRequestTopic(name="t", partitions=[asked])]
    answer = client.call(OffsetCommitRequest(group_id="g", topics=topics, **fields), version)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def fetched(client: Client, version: int) -> tuple[int, str, int]:
    """Fetch the offset of one partition: offset, metadata, error."""
    asked = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    answer = client.call(OffsetFetchRequest(group_id="g", topics=[asked]), version)
    found = answer.topics[0].partitions[0]
    return found.committed_offset, found.metadata, found.error_code


def committed(client: Client) -> OffsetCommitValue:
    """Return the stored offset."""
    for shard in client.broker.coordinator.shards:
        offsets = shard.logged.offsets
        if "g" in offsets:
            value: OffsetCommitValue = offsets["g"]["t"][0]
            return value
    raise AssertionError("the group has no offsets")


class TestTopics:
    @pytest.mark.parametrize("version", [0, 1])
    def test_create_and_delete(self, client: Client, version: int) -> None:
        asked = CreateTopicsRequestTopic(name="n", num_partitions=2, replication_factor=1)
        errors = []
        for _ in range(2):
            answer = client.call(CreateTopicsRequest(topics=[asked]), version)
            errors.append((answer.topics[0].error_code, answer.topics[0].error_message))
        text = "Topic 'n' already exists." if version else None
        assert errors == [(0, None), (ErrorCode.TOPIC_ALREADY_EXISTS, text)]
        request = DeleteTopicsRequest(topic_names=["n", "nope"], timeout_ms=1000)
        deleted = client.call(request, 0)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert sorted((each.name, each.error_code) for each in deleted.responses) == [
            ("n", 0),
            ("nope", unknown),
        ]

    def test_settings_say_which_are_defaults(self, client: Client) -> None:
        client.broker.controller.create("own", 1, {"retention.ms": "5000"})
        asked = DescribeConfigsRequestResource(
            resource_type=2, resource_name="own", configuration_keys=["retention.ms", "segment.ms"]
        )
        answer = client.call(DescribeConfigsRequest(resources=[asked]), 0)
        found = {each.name: each.is_default for each in answer.results[0].configs}
        assert found == {"retention.ms": False, "segment.ms": True}

    @pytest.mark.parametrize("version", [0, 1])
    def test_end_of_a_leader_epoch(self, client: Client, version: int) -> None:
        produce(client, batch(b"a"))
        asked = OffsetForLeaderEpochRequestPartition(partition=0, leader_epoch=0)
        topics = [OffsetForLeaderEpochRequestTopic(topic="t", partitions=[asked])]
        answer = client.call(OffsetForLeaderEpochRequest(topics=topics), version)
        (found,) = answer.topics[0].partitions
        assert (found.error_code, found.leader_epoch, found.end_offset) == (
            0,
            0 if version else -1,
            1,
        )
