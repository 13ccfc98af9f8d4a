"""Leaders and voters of a cluster of one broker; more is in `tests/golden/answers`.

Rules: [topics/quorum].
"""

from typing import Any

import pytest

from coterie.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from coterie.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
)
from tests.unit.server.manual import Client, make_broker

METADATA = "__cluster_metadata"


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    client.broker.controller.create("orders", 2, {})
    return client


class TestElectLeaders:
    def test_of_all_topics_no_partition_needs_an_election(self, client: Client) -> None:
        answer = client.call(ElectLeadersRequest(topic_partitions=None), 2)
        assert [
            (each.topic, each.partition_result) for each in answer.replica_election_results
        ] == [
            ("__consumer_offsets", []),
            ("orders", []),
        ]


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
