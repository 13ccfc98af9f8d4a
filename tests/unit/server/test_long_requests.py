"""Requests with thousands of elements, or with large responses: no turn of the event loop is long.

`ManualLoop` and `Client.send` fail a test when a turn uses more than 20 ms of a processor.
"""

import pytest

from coterie.coordinator.transactions.transaction import Transaction
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.list_transactions import ListTransactionsRequest
from coterie.protocol.topic_names import TRANSACTIONS_TOPIC
from coterie.server.config.keys import TOPIC_RESOURCE
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.test_sweeps import commit_in_groups


@pytest.fixture
def client() -> Client:
    return Client(make_broker())


class TestLargeResponses:
    def test_list_of_transactions(self, client: Client) -> None:
        broker = client.broker
        broker.topics.create(TRANSACTIONS_TOPIC, 1, {})
        broker.transaction_runtime.create_topic()
        client.loop.turn()
        (shard,) = broker.transaction_runtime.coordinator.shards
        for number in range(50_000):
            name = f"id-{number}"
            shard.transactions[name] = Transaction(name, number, 0)
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
        assert len(client.call(request, 1).transaction_states) == 50_000

    def test_settings_of_many_topics(self, client: Client) -> None:
        names = [f"t{number}" for number in range(1_000)]
        for name in names:
            client.broker.topics.create(name, 1, {})
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequestResource(
                    resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
                )
                for name in names
            ]
        )
        results = client.call(request, 4).results
        assert [each.resource_name for each in results] == names

    def test_list_of_groups_of_one_partition(self) -> None:
        """Sorting them is work, too [administration/list-order]."""
        client = Client(make_broker({"offsets.topic.num.partitions": "1"}))
        commit_in_groups(client.broker, 50_000)
        answer = client.call(ListGroupsRequest(states_filter=[], types_filter=[]), 5)
        assert len(answer.groups) == 50_000
