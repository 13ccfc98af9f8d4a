"""Requests with thousands of elements, or with large responses: no turn of the event loop is long.

`ManualLoop` and `Client.send` fail a test when a turn uses more than 20 ms of a processor.
"""

import pytest

from coterie.coordinator.groups.replay import replay
from coterie.coordinator.transactions.transaction import Transaction
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.list_transactions import ListTransactionsRequest
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coterie.protocol.topic_names import TRANSACTIONS_TOPIC
from coterie.server.config.keys import TOPIC_RESOURCE
from coterie.server.network.connection import Connection
from coterie.server.network.delayed_response import DelayedResponse
from coterie.server.network.routes import Overlay
from tests.unit.server.groups import commit
from tests.unit.server.manual import COMMIT, Client, make_broker, wait_for_disk
from tests.unit.server.manual_loop import START_MS
from tests.unit.server.test_sweeps import commit_in_groups
from tests.unit.server.turns import limited_turn

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def client() -> Client:
    return Client(make_broker())


class TestLargeResponses:
    def test_list_of_transactions(self, client: Client) -> None:
        broker = client.broker
        broker.controller.create(TRANSACTIONS_TOPIC, 1, {})
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
            client.broker.controller.create(name, 1, {})
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

    def test_creation_of_many_topics(self, client: Client) -> None:
        """Each topic has some thirty settings in the response."""
        names = [f"t{number}" for number in range(2_000)]
        topics = [
            CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1)
            for name in names
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=1_000, validate_only=True)
        answered = client.call(request, 7).topics
        assert [each.name for each in answered] == names
        assert all(len(each.configs) > 20 for each in answered)

    def test_delayed_response_with_many_elements(self) -> None:
        """It does not matter which handler or coordinator sends it; later responses wait for it."""
        members = [
            JoinGroupResponseMember(member_id=f"m{number}", metadata=bytes(100))
            for number in range(60_000)
        ]
        response = JoinGroupResponse(
            error_code=0,
            generation_id=1,
            protocol_name="range",
            leader="m0",
            member_id="m0",
            members=members,
        )
        delayed: list[DelayedResponse] = []

        def join(_broker: object, _request: object, connection: Connection) -> None:
            delayed.append(DelayedResponse(connection))
            connection.delay(delayed[0])

        broker = make_broker()
        broker.use_routes(Overlay(broker.routes, {ApiKey.JOIN_GROUP: lambda _: join}))
        client = Client(broker)
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=6_000,
            rebalance_timeout_ms=6_000,
            member_id="m0",
            protocol_type="consumer",
            protocols=[],
        )
        sent = [client.send(request, 5), client.send(HEARTBEAT, 4)]
        with limited_turn():
            delayed[0].send(response)
        client.loop.turn()
        answers = client.answers()
        assert [correlation_id for correlation_id, _ in answers] == sent
        assert answers[0][1] == response

    def test_list_of_groups_of_one_partition(self) -> None:
        """Sorting them is work, too [administration/list-order]."""
        client = Client(make_broker({"offsets.topic.num.partitions": "1"}))
        commit_in_groups(client.broker, 50_000)
        answer = client.call(ListGroupsRequest(states_filter=[], types_filter=[]), 5)
        assert len(answer.groups) == 50_000


class TestManyGroups:
    """Requests that name so many groups as a request may [framing/element-limit]."""

    COUNT = 9_500

    @pytest.fixture
    def client(self) -> Client:
        client = Client(make_broker())
        client.broker.controller.create("t", 1, {})
        commit_in_groups(client.broker, self.COUNT)
        return client

    @property
    def names(self) -> list[str]:
        return [f"g{number}" for number in range(self.COUNT)]

    def test_describe(self, client: Client) -> None:
        unknown = [f"unknown{number}" for number in range(19_000 - self.COUNT)]
        request = DescribeGroupsRequest(groups=[*self.names, *unknown])
        groups = client.call(request, 6).groups
        assert [each.group_id for each in groups] == request.groups
        assert {each.error_code for each in groups[: self.COUNT]} == {ErrorCode.NONE}
        assert {each.error_code for each in groups[self.COUNT :]} == {ErrorCode.GROUP_ID_NOT_FOUND}

    def test_delete(self, client: Client) -> None:
        request = DeleteGroupsRequest(groups_names=[*self.names, "g1", "unknown"])
        results = {each.group_id: each.error_code for each in client.call(request, 2).results}
        assert results == dict.fromkeys(self.names, 0) | {"unknown": ErrorCode.GROUP_ID_NOT_FOUND}
        assert not list(client.broker.coordinator.groups())

    @pytest.mark.parametrize("version", [8, 10])
    def test_fetch(self, client: Client, version: int) -> None:
        topic_id = client.broker.topics.by_name["t"].topic_id
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=name,
                    topics=[
                        OffsetFetchRequestTopic(name="t", topic_id=topic_id, partition_indexes=[0])
                    ],
                )
                for name in self.names[:6_500]
            ]
        )
        groups = client.call(request, version).groups
        assert [each.group_id for each in groups] == self.names[:6_500]
        assert {each.topics[0].partitions[0].committed_offset for each in groups} == {1}
        if version >= 10:
            assert {each.topics[0].topic_id for each in groups} == {topic_id}

    def test_fetch_of_all_offsets(self, client: Client) -> None:
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in self.names]
        fetched = client.call(OffsetFetchRequest(groups=groups), 8).groups
        assert [each.topics[0].partitions[0].committed_offset for each in fetched] == [1] * len(
            groups
        )

    def test_others_are_served_and_the_order_is_kept(self, client: Client) -> None:
        sent = [
            client.send(DescribeGroupsRequest(groups=self.names), 5),
            client.send(HEARTBEAT, 4),
        ]
        other = Client(client.broker)
        assert other.call(HEARTBEAT, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        client.loop.turn()
        assert [correlation_id for correlation_id, _ in client.answers()] == sent

    def test_deletions_are_answered_when_they_are_durable(self) -> None:
        client = Client(make_broker(flush=COMMIT))
        client.broker.controller.create("t", 1, {})
        names = [f"g{number}" for number in range(20)]
        for name in names:
            client.send(commit(1, group_id=name), 8)
        wait_for_disk(client)
        client.answers()
        client.send(DeleteGroupsRequest(groups_names=names), 2)
        client.loop.turn_once()
        assert client.answers() == []
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        assert [each.group_id for each in answer.results] == names
        assert not list(client.broker.coordinator.groups())


class TestManyPartitions:
    """Requests for the offsets of many partitions of one group."""

    COUNT = 19_000

    @pytest.fixture
    def client(self) -> Client:
        client = Client(make_broker())
        client.broker.controller.create("t", self.COUNT, {})
        coordinator = client.broker.coordinator
        shard = coordinator.shards[coordinator.partition_for("g")]
        for index in range(self.COUNT):
            value = OffsetCommitValue(offset=index, metadata="", commit_timestamp=START_MS)
            replay(shard.logged, (OffsetCommitKey(group="g", topic="t", partition=index), value))
        shard.add_group(shard.new_group("g", START_MS))
        return client

    @pytest.mark.parametrize("version", [1, 7, 8, 10])
    def test_fetch_of_all_offsets(self, client: Client, version: int) -> None:
        fetched = client.call(offset_fetch("g", None if version > 1 else self.COUNT), version)
        (topic,) = fetched.groups[0].topics if version >= 8 else fetched.topics
        assert [each.committed_offset for each in topic.partitions] == list(range(self.COUNT))


def offset_fetch(group_id: str, count: int | None) -> OffsetFetchRequest:
    """Return the request for offsets of "t", or for all, in the form of any version."""
    topics = None
    if count is not None:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=list(range(count)))]
    groups = [OffsetFetchRequestGroup(group_id=group_id, topics=topics)]
    return OffsetFetchRequest(group_id=group_id, topics=topics, groups=groups)
