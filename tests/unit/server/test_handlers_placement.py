"""Requests about leaders, replicas and voters of a cluster of one broker; Kafka 4.3.1's answers."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
)
from coterie.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from coterie.protocol.messages.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
)
from coterie.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestTopic,
)
from tests.unit.server.manual import Client, make_broker

METADATA = "__cluster_metadata"


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    client.broker.controller.create("orders", 2, {})
    return client


class TestElectLeaders:
    def elect(self, client: Client, version: int, kind: int, **topics: list[int]) -> Any:
        named = [
            ElectLeadersRequestTopic(topic=name, partitions=each) for name, each in topics.items()
        ]
        return client.call(ElectLeadersRequest(election_type=kind, topic_partitions=named), version)

    @pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
    def test_the_leader_is_the_only_replica(self, client: Client, kind: int) -> None:
        answer = self.elect(client, 2, kind, orders=[0, 9], nope=[0])
        assert answer.error_code == ErrorCode.NONE
        assert [
            (each.topic, one.partition_id, one.error_code, one.error_message)
            for each in answer.replica_election_results
            for one in each.partition_result
        ] == [
            ("orders", 0, 84, "Leader election not needed for topic partition."),
            ("orders", 9, 3, "No such partition as orders-9"),
            ("nope", 0, 3, "No such topic as nope"),
        ]

    def test_of_all_topics_no_partition_needs_an_election(self, client: Client) -> None:
        answer = client.call(ElectLeadersRequest(topic_partitions=None), 2)
        assert [
            (each.topic, each.partition_result) for each in answer.replica_election_results
        ] == [
            ("__consumer_offsets", []),
            ("orders", []),
        ]

    def test_unknown_election_type_is_refused(self, client: Client) -> None:
        answer = self.elect(client, 2, 5, orders=[0])
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        (topic,) = answer.replica_election_results
        (result,) = topic.partition_result
        assert (result.error_code, result.error_message) == (42, "Unknown election type 5")
        assert not client.call(
            ElectLeadersRequest(election_type=5, topic_partitions=None), 2
        ).replica_election_results


class TestReassignments:
    def reassign(self, client: Client, name: str, index: int, replicas: list[int] | None) -> Any:
        partition = AlterPartitionReassignmentsRequestPartition(
            partition_index=index, replicas=replicas
        )
        topic = AlterPartitionReassignmentsRequestTopic(name=name, partitions=[partition])
        answer = client.call(AlterPartitionReassignmentsRequest(topics=[topic]), 1)
        assert (answer.error_code, answer.error_message) == (0, None)
        (topic,) = answer.responses
        (result,) = topic.partitions
        return result.error_code, result.error_message

    @pytest.mark.parametrize(
        ("name", "index", "replicas", "error", "text"),
        [
            ("orders", 0, [1], 0, None),
            ("orders", 0, [2], 39, "includes broker 2, but no such broker is registered."),
            ("orders", 0, [1, 1], 39, "includes the broker 1 more than once."),
            ("orders", 0, [], 39, "includes an empty replica list."),
            ("orders", 0, None, 85, None),
            ("orders", 9, [1], 3, "Unable to find partition orders:9."),
            ("orders", 9, None, 3, "Unable to find partition orders:9."),
            ("nope", 0, [1], 3, "Unable to find a topic named nope."),
        ],
    )
    def test_a_partition_can_only_be_where_it_is(
        self,
        client: Client,
        name: str,
        index: int,
        replicas: list[int] | None,
        error: int,
        text: str | None,
    ) -> None:
        if error == ErrorCode.INVALID_REPLICA_ASSIGNMENT:
            text = f"The manual partition assignment {text}"
        assert self.reassign(client, name, index, replicas) == (error, text)

    def test_request_without_topics_is_answered_with_defaults(self, client: Client) -> None:
        request = AlterPartitionReassignmentsRequest(
            topics=[], allow_replication_factor_change=False
        )
        answer = client.call(request, 1)
        assert (answer.error_code, answer.error_message, answer.responses) == (0, "", [])
        assert answer.allow_replication_factor_change

    def test_no_reassignment_is_in_progress(self, client: Client) -> None:
        named = ListPartitionReassignmentsRequestTopic(name="nope", partition_indexes=[0])
        for topics in (None, [], [named]):
            answer = client.call(ListPartitionReassignmentsRequest(topics=topics), 0)
            assert (answer.error_code, answer.topics) == (0, [])


class TestQuorum:
    def describe(self, client: Client, *named: tuple[str, int], version: int = 2) -> Any:
        topics = [
            DescribeQuorumRequestTopic(
                topic_name=name, partitions=[DescribeQuorumRequestPartition(partition_index=index)]
            )
            for name, index in named
        ]
        return client.call(DescribeQuorumRequest(topics=topics), version)

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_the_broker_is_the_only_voter(self, client: Client, version: int) -> None:
        answer = self.describe(client, (METADATA, 0), version=version)
        (topic,) = answer.topics
        (quorum,) = topic.partitions
        (voter,) = quorum.current_voters
        assert (quorum.error_code, quorum.leader_id, quorum.leader_epoch) == (0, 1, 1)
        assert (voter.replica_id, voter.log_end_offset) == (1, quorum.high_watermark)
        assert quorum.observers == []
        assert (voter.last_caught_up_timestamp > 0) == (version >= 1)
        assert [each.node_id for each in answer.nodes] == ([1] if version >= 2 else [])

    @pytest.mark.parametrize(
        "named",
        [[("orders", 0)], [(METADATA, 1)], [(METADATA, 0), ("orders", 0)]],
    )
    def test_anything_else_has_no_quorum(
        self, client: Client, named: list[tuple[str, int]]
    ) -> None:
        answer = self.describe(client, *named)
        found = [quorum for topic in answer.topics for quorum in topic.partitions]
        assert [quorum.error_code for quorum in found] == [3] * len(named)
        assert found[0].error_message == "This server does not host this topic-partition."
        assert answer.nodes == []
