"""Large responses: they are made in slices, and what is encoded of topics is kept."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.server.handlers import topic_descriptions
from tests.unit.server.groups import commit
from tests.unit.server.manual import Client, make_broker, open_log

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    for number in range(3):
        client.broker.topics.create(f"t{number}", 1, {})
    return client


@pytest.fixture
def tiny_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a slice end after each step."""
    monkeypatch.setattr("coterie.server.slices.SLICE_S", 0)
    monkeypatch.setattr("coterie.server.network.sliced_response.SLICE_S", 0)


def described(answer: Any) -> dict[str, list[tuple[int, int]]]:
    return {
        topic.name: [(each.partition_index, each.leader_epoch) for each in topic.partitions]
        for topic in answer.topics
    }


@pytest.mark.usefixtures("tiny_slices")
class TestSlices:
    def test_others_are_served_between_slices(self, client: Client) -> None:
        asked = client.send(MetadataRequest(topics=None), 9)
        after = client.send(HEARTBEAT, 4)
        other = Client(client.broker)
        assert other.call(HEARTBEAT, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        client.loop.turn()
        assert [correlation_id for correlation_id, _ in client.answers()] == [asked, after]

    def test_topic_that_is_deleted_between_slices_is_left_out(self, client: Client) -> None:
        client.send(MetadataRequest(topics=None), 9)
        client.loop.turn_once()
        broker = client.broker
        broker.delete_topic(broker.topics.by_name["t2"])
        client.loop.turn()
        ((_, answer),) = client.answers()
        assert {"t0", "t1"} <= described(answer).keys()
        assert "t2" not in described(answer)

    def test_topic_that_changes_between_slices_is_encoded_again(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(topic_descriptions, "_PARTITIONS_A_STEP", 1)
        broker = client.broker
        topic = broker.topics.by_name["t0"]
        broker.topics.add_partitions(topic, 3)
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t0")])
        client.send(request, 9)
        client.loop.turn_once()
        broker.topics.add_partitions(topic, 4)
        client.loop.turn()
        client.answers()
        assert not topic.images
        client.send(request, 9)
        client.loop.turn()
        ((_, answer),) = client.answers()
        assert described(answer) == {"t0": [(0, 0), (1, 0), (2, 0), (3, 0)]}

    def test_several_large_requests_get_their_responses(self, client: Client) -> None:
        clients = [client, Client(client.broker), Client(client.broker)]
        for each in clients:
            each.send(MetadataRequest(topics=None), 9)
        client.loop.turn()
        first, *others = [each.answers()[0][1] for each in clients]
        assert all(described(each) == described(first) for each in others)

    def test_list_of_groups(self, client: Client) -> None:
        client.broker.topics.create("t", 1, {})
        for number in range(20):
            client.send(commit(1, group_id=f"g{number:02}"), 8)
        client.loop.turn()
        client.answers()
        client.send(ListGroupsRequest(states_filter=[]), 4)
        other = Client(client.broker)
        assert other.call(HEARTBEAT, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        client.loop.turn()
        ((_, answer),) = client.answers()
        assert sorted(each.group_id for each in answer.groups) == [f"g{n:02}" for n in range(20)]

    def test_failure_between_slices_closes_the_connection(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise ZeroDivisionError

        client.send(MetadataRequest(topics=None), 9)
        monkeypatch.setattr(topic_descriptions.TopicDescriptions, "_partition", fail)
        client.loop.turn()
        assert client.transport.closed

    def test_lost_connection_is_not_answered(self, client: Client) -> None:
        client.send(MetadataRequest(topics=None), 9)
        client.connection.connection_lost(None)
        client.loop.turn()
        assert client.answers() == []


class TestKeptDescriptions:
    REQUEST = MetadataRequest(topics=None)

    def images(self, client: Client, topic: str = "t0") -> int:
        return len(client.broker.topics.by_name[topic].images)

    def test_encoding_is_kept_for_each_version(self, client: Client) -> None:
        answers = [client.call(self.REQUEST, version) for version in (9, 9, 12)]
        assert self.images(client) == 2
        assert described(answers[0]) == described(answers[1])

    def test_number_of_kept_encodings_is_limited(self, client: Client) -> None:
        for version in range(8, 14):
            client.call(self.REQUEST, version)
        assert 0 < self.images(client) <= 4

    def test_new_partitions_are_described(self, client: Client) -> None:
        client.call(self.REQUEST, 9)
        broker = client.broker
        broker.topics.add_partitions(broker.topics.by_name["t0"], 2)
        assert described(client.call(self.REQUEST, 9))["t0"] == [(0, 0), (1, 0)]

    def test_failed_partition_is_described(self, client: Client) -> None:
        client.call(self.REQUEST, 9)
        client.broker.topics.by_name["t0"].partitions[0].fail(OSError(5, "Input/output error"))
        assert described(client.call(self.REQUEST, 9))["t0"] == [(0, -1)]

    def test_new_leader_epoch_is_described(self, client: Client) -> None:
        client.call(self.REQUEST, 9)
        open_log(client.broker, "t0")
        client.broker.topics.by_name["t0"].partitions[0].lead(5)
        assert described(client.call(self.REQUEST, 9))["t0"] == [(0, 5)]
