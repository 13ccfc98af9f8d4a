"""Large requests and responses in slices, and what is kept of encoded topics."""

import gc
import time
from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponseResult,
)
from coterie.protocol.messages.fetch import FetchRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.server.authorization.access import STANDARD_AUTHORIZER
from coterie.server.handlers import topic_descriptions
from coterie.server.logs.flusher import FlushMode
from coterie.server.network.connection_quotas import ConnectionState
from coterie.server.network.limits import LARGE_PRODUCE_BYTES, LARGE_REQUEST_BYTES
from tests.unit.server.changed_now import add_partitions
from tests.unit.server.groups import commit
from tests.unit.server.manual import Client, logged, make_broker, open_log
from tests.unit.server.produced import batch, fetch_request, produce, produce_request, values_of
from tests.unit.server.running import PATIENCE_S

UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    for number in range(3):
        client.broker.controller.create(f"t{number}", 1, {})
    return client


def described(answer: Any) -> dict[str, list[tuple[int, int]]]:
    return {
        topic.name: [(each.partition_index, each.leader_epoch) for each in topic.partitions]
        for topic in answer.topics
    }


def repeat_topic(request: ProduceRequest, count: int) -> None:
    """Let a request for one topic ask the same for so many topics."""
    (asked,) = request.topic_data
    request.topic_data = [
        ProduceRequestTopic(name=f"u{number}", partition_data=asked.partition_data)
        for number in range(count)
    ]


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
        add_partitions(broker, topic, 3)
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t0")])
        client.send(request, 9)
        client.loop.turn_once()
        add_partitions(broker, topic, 4)
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
        client.broker.controller.create("t", 1, {})
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


@pytest.mark.usefixtures("tiny_slices")
class TestLargeRequests:
    """Requests of more than `LARGE_REQUEST_BYTES`, which are decoded in slices."""

    COUNT = 600

    @pytest.fixture
    def request_(self) -> MetadataRequest:
        return MetadataRequest(
            topics=[MetadataRequestTopic(name=f"unknown-{n}") for n in range(self.COUNT)],
            allow_auto_topic_creation=False,
        )

    def test_others_are_served_while_it_is_decoded(
        self, client: Client, request_: MetadataRequest
    ) -> None:
        asked, after = client.send(request_, 9), client.send(HEARTBEAT, 4)
        assert client.connection.current_state is ConnectionState.BUSY
        other = Client(client.broker)
        other.send(HEARTBEAT, 4)
        assert [answer.error_code for _, answer in other.answers()] == [UNKNOWN_MEMBER_ID]
        assert client.answers() == []
        client.loop.turn()
        (first, answer), (second, _) = client.answers()
        assert (first, second) == (asked, after)
        assert [each.name for each in answer.topics] == [f"unknown-{n}" for n in range(self.COUNT)]

    @pytest.mark.parametrize("cut", [1, 4_000])
    def test_malformed_one_closes_the_connection_with_one_line(
        self, client: Client, request_: MetadataRequest, cut: int
    ) -> None:
        frame = client.frame(request_, 9)[4:-cut]
        client.connection.data_received(len(frame).to_bytes(4, "big") + frame)
        client.loop.turn()
        assert client.transport.closed
        (line,) = logged(client.broker, "connection closed")
        assert line["error"] == "MalformedFrame"
        assert line["reason"].startswith("Metadata v9: ")

    def test_lost_connection_ends_the_decoding(
        self, client: Client, request_: MetadataRequest
    ) -> None:
        client.send(request_, 9)
        client.connection.connection_lost(None)
        client.loop.turn()
        assert client.answers() == []
        assert client.broker.slices.idle

    def test_produce_without_response_is_handled_after_its_client_has_left(
        self, client: Client
    ) -> None:
        partitions = [ProduceRequestPartition(index=0, records=batch(b"x" * 100))] * 200
        request = produce_request(batch(b"x"), topic="t0")
        request.acks = 0
        request.topic_data[0].partition_data = partitions
        client.send(request, 9)
        assert client.connection.eof_received()
        client.loop.turn()
        assert client.broker.topics.by_name["t0"].partitions[0].log.log_end_offset > 0

    def test_refused_produce_that_is_decoded_at_once_is_answered_in_slices(
        self, client: Client
    ) -> None:
        records = batch(b"x", producer=(1, 0, 0), transactional=True)
        request = produce_request(records)
        repeat_topic(request, 200)
        frame = client.frame(request, 9)
        assert LARGE_REQUEST_BYTES < len(frame) < LARGE_PRODUCE_BYTES
        client.connection.data_received(frame)
        assert client.answers() == []
        client.loop.turn()
        ((_, answer),) = client.answers()
        errors = [topic.partition_responses[0].error_code for topic in answer.responses]
        assert errors == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 200

    def test_topics_that_an_authorizer_refuses_are_answered_in_slices(self) -> None:
        client = Client(make_broker({"authorizer.class.name": STANDARD_AUTHORIZER}))
        request = produce_request(b"")
        repeat_topic(request, 200)
        client.send(request, 9)
        assert client.answers() == []
        client.loop.turn()
        ((_, answer),) = client.answers()
        errors = [topic.partition_responses[0].error_code for topic in answer.responses]
        assert errors == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 200


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
        add_partitions(broker, broker.topics.by_name["t0"], 2)
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


@pytest.mark.usefixtures("tiny_slices")
class TestManyPartitions:
    """Requests for many partitions, which are handled in slices."""

    COUNT = 300

    @pytest.fixture
    def client(self) -> Client:
        client = Client(make_broker())
        client.broker.controller.create("t", self.COUNT, {})
        return client

    def produce(self, client: Client) -> Any:
        request = produce_request(batch(b"x" * 100))
        request.topic_data[0].partition_data = [
            ProduceRequestPartition(index=index, records=batch(b"x" * 100))
            for index in range(self.COUNT)
        ]
        return client.call(request, 9).responses[0].partition_responses

    def fetch(self, **fields: Any) -> FetchRequest:
        partitions = [(index, 0) for index in range(self.COUNT)]
        return fetch_request(*partitions, **fields)

    def values(self, answer: Any) -> list[bytes | None]:
        partitions = answer.responses[0].partitions
        return [value for each in partitions for value in values_of(each.records)]

    def test_produce_appends_to_all(self, client: Client) -> None:
        answers = self.produce(client)
        assert [each.index for each in answers] == list(range(self.COUNT))
        assert {(each.error_code, each.base_offset) for each in answers} == {(0, 0)}

    def test_durable_produce_is_answered_after_all_syncs(self) -> None:
        client = Client(make_broker(flush=FlushMode(commit=True, interval_ms=None)))
        client.broker.controller.create("t", self.COUNT, {})
        request = produce_request(batch(b"a"))
        request.topic_data[0].partition_data = [
            ProduceRequestPartition(index=index, records=batch(b"a")) for index in range(self.COUNT)
        ]
        client.send(request, 9)
        deadline = time.monotonic() + PATIENCE_S
        answers = client.answers()
        while not answers and time.monotonic() < deadline:
            client.loop.turn()
            answers = client.answers()
        ((_, answer),) = answers
        partitions = client.broker.topics.by_name["t"].partitions
        assert {each.error_code for each in answer.responses[0].partition_responses} == {0}
        assert {each.log.log_end_offset for each in partitions} == {1}

    def test_fetch_reads_all_in_their_order(self, client: Client) -> None:
        self.produce(client)
        answer = client.call(self.fetch(), 12)
        (topic,) = answer.responses
        assert [each.partition_index for each in topic.partitions] == list(range(self.COUNT))
        assert self.values(answer) == [b"x" * 100] * self.COUNT

    def test_fetch_waits_for_records(self, client: Client) -> None:
        client.send(self.fetch(min_bytes=1, max_wait_ms=1_000), 12)
        client.loop.turn()
        assert client.answers() == []
        produce(Client(client.broker), batch(b"a"), partition=7)
        client.loop.turn()
        ((_, answer),) = client.answers()
        assert self.values(answer) == [b"a"]

    def test_fetch_ends_after_its_time(self, client: Client) -> None:
        client.send(self.fetch(min_bytes=1, max_wait_ms=1_000), 12)
        client.loop.turn()
        client.loop.advance(1_000)
        ((_, answer),) = client.answers()
        assert self.values(answer) == []

    def test_fetch_of_a_topic_that_is_deleted_meanwhile(self, client: Client) -> None:
        self.produce(client)
        client.send(self.fetch(), 12)
        client.loop.turn_once()
        client.broker.delete_topic(client.broker.topics.by_name["t"])
        client.loop.turn()
        ((_, answer),) = client.answers()
        assert {each.error_code for each in answer.responses[0].partitions} <= {
            ErrorCode.NONE,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

    def test_lost_connection_ends_the_fetch(self, client: Client) -> None:
        client.send(self.fetch(min_bytes=1, max_wait_ms=1_000), 12)
        client.connection.connection_lost(None)
        client.loop.turn()
        client.loop.advance(1_000)
        assert client.answers() == []
        assert not any(each.watchers for each in client.broker.topics.by_name["t"].partitions)


def results_alive() -> list[DescribeConfigsResponseResult]:
    return [each for each in gc.get_objects() if type(each) is DescribeConfigsResponseResult]


@pytest.mark.usefixtures("tiny_slices")
def test_large_response_is_freed_in_slices(client: Client) -> None:
    """The response is sent first; arrays that the broker keeps are left as they are."""
    for number in range(3, 300):
        client.broker.controller.create(f"t{number}", 1, {})
    names = [MetadataRequestTopic(name=f"t{number}") for number in range(300)]
    for _ in range(2):
        client.send(MetadataRequest(topics=names), 9)
        while not (answers := client.answers()):
            client.loop.turn_once()
        ((_, answer),) = answers
        assert len(described(answer)) == 300
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequestResource(
                resource_type=2, resource_name=f"t{number}", configuration_keys=None
            )
            for number in range(300)
        ]
    )
    # Those of other tests, kept so that no new one has the identity of one of them.
    others = results_alive()
    known = {id(each) for each in others}
    client.send(request, 4)
    alive: list[int] = []
    while not client.broker.slices.idle or not alive:
        client.loop.turn_once()
        if client.transport.written:
            alive.append(sum(id(each) not in known for each in results_alive()))
    assert alive == sorted(alive, reverse=True)
    assert alive[0] > 200, "some are freed after the response was sent"
    assert len(set(alive)) > 2, "some are freed before others"
    assert alive[-1] == 0


@pytest.mark.usefixtures("tiny_slices")
@pytest.mark.parametrize("size", [20_000, 40_000])
def test_single_batches_are_decoded_at_once(client: Client, size: int) -> None:
    """The larger one has a decoder with steps; a request about one partition has a single one."""
    open_log(client.broker, "t0")
    client.send(produce_request(batch(bytes(size)), topic="t0"), 9)
    assert client.answers()
