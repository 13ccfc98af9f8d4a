"""Versions that Kafka 4.0 removed, but for message sets. The answers are those of Kafka 2.8.2.

Rules: [data-plane/segment-offsets], [offsets/oldest-versions].
"""

from typing import Any

import pytest

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
from coterie.server.releases import Release
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

    @pytest.mark.parametrize(
        ("version", "timestamp", "stored"),
        [(1, 77, 77), (1, -1, START_MS), (2, 77, START_MS)],
    )
    def test_time_of_a_commit(
        self, client: Client, version: int, timestamp: int, stored: int
    ) -> None:
        assert commit(client, version, timestamp=timestamp) == 0
        assert committed(client).commit_timestamp == stored


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
    def test_settings_say_which_are_defaults(self, client: Client) -> None:
        client.broker.controller.create("own", 1, {"retention.ms": "5000"})
        asked = DescribeConfigsRequestResource(
            resource_type=2, resource_name="own", configuration_keys=["retention.ms", "segment.ms"]
        )
        answer = client.call(DescribeConfigsRequest(resources=[asked]), 0)
        found = {each.name: each.is_default for each in answer.results[0].configs}
        assert found == {"retention.ms": False, "segment.ms": True}
