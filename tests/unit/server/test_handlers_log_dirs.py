"""The data directory as clients see it, and what has settings; the answers are Kafka 4.3.1's.

Rules: [settings/config-resources], [topics/log-directories].
"""

from pathlib import Path
from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestDir,
    AlterReplicaLogDirsRequestTopic,
)
from coterie.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
)
from coterie.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.produced import batch, produce


@pytest.fixture
def client(tmp_path: Path) -> Client:
    client = Client(make_broker())
    client.broker.config.record({"log.dirs": str(tmp_path)})
    client.broker.controller.create("orders", 2, {})
    return client


def described(client: Client, version: int = 5, **topics: list[int]) -> Any:
    named = [
        DescribeLogDirsRequestTopic(topic=name, partitions=each) for name, each in topics.items()
    ]
    answer = client.call(DescribeLogDirsRequest(topics=named), version)
    (result,) = answer.results
    assert (answer.error_code, result.error_code) == (0, 0)
    return result


def sizes(result: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.name, each.partition_index, each.partition_size)
        for topic in result.topics
        for each in topic.partitions
    ]


class TestDescribe:
    def test_the_size_of_a_log_is_that_of_its_batches(self, client: Client) -> None:
        records = batch(b"one", b"two")
        produce(client, records, topic="orders", partition=1)
        assert sizes(described(client, orders=[0, 1])) == [
            ("orders", 0, 0),
            ("orders", 1, len(records)),
        ]

    def test_what_does_not_exist_is_left_out(self, client: Client) -> None:
        assert sizes(described(client, orders=[9, 1, 1], nope=[0])) == [("orders", 1, 0)]

    def test_null_is_every_log(self, client: Client) -> None:
        answer = client.call(DescribeLogDirsRequest(topics=None), 5)
        names = {name for name, _, _ in sizes(answer.results[0])}
        assert "orders" in names
        assert described(client).topics == []

    @pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
    def test_the_space_of_the_volume_is_in_newer_versions(
        self, client: Client, version: int, tmp_path: Path
    ) -> None:
        result = described(client, version, orders=[0])
        assert result.log_dir == str(tmp_path)
        assert (result.total_bytes >= result.usable_bytes > 0) == (version >= 4)

    def test_the_space_of_data_in_memory_is_unknown(self) -> None:
        result = described(Client(make_broker()))
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)


class TestAlter:
    def moved(self, client: Client, path: str, long_name: str = "nope") -> list[int]:
        topics = [
            AlterReplicaLogDirsRequestTopic(name="orders", partitions=[0, 9]),
            AlterReplicaLogDirsRequestTopic(name=long_name, partitions=[0]),
        ]
        directory = AlterReplicaLogDirsRequestDir(path=path, topics=topics)
        answer = client.call(AlterReplicaLogDirsRequest(dirs=[directory]), 2)
        return [each.error_code for topic in answer.results for each in topic.partitions]

    def test_a_log_may_stay_where_it_is(self, client: Client, tmp_path: Path) -> None:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert self.moved(client, str(tmp_path)) == [ErrorCode.NONE, missing, missing]


class TestConfigResources:
    def listed(self, client: Client, *types: int) -> list[tuple[int, str]]:
        answer = client.call(ListConfigResourcesRequest(resource_types=list(types)), 1)
        assert answer.error_code == ErrorCode.NONE
        return [(each.resource_type, each.resource_name) for each in answer.config_resources]

    def test_no_types_are_all_types(self, client: Client) -> None:
        found = self.listed(client)
        assert found == [(8, "1"), (4, "1"), (2, "__consumer_offsets"), (2, "orders")]

    def test_only_the_named_types_are_listed(self, client: Client) -> None:
        assert self.listed(client, 4, 16, 32) == [(4, "1")]

    def test_version_0_lists_subscriptions_of_metrics(self, client: Client) -> None:
        assert client.call(ListConfigResourcesRequest(), 0).config_resources == []
