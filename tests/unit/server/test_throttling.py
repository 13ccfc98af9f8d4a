"""Clients above their quotas are told to wait, and their connections are muted."""

import math
from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
)
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.record_writer import encode_batch
from coterie.server.broker import Broker
from coterie.server.config.config import Config
from coterie.server.metadata.topic_changes import make_now
from coterie.server.quotas import throttling
from coterie.server.quotas.checks import QuotaChange, entity_of
from coterie.server.quotas.throttling import Throttling
from tests.unit.server.manual import Client, make_broker

VERSIONS = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
CLIENT = [("client-id", "test")]
PRODUCER = "producer_byte_rate"
CONSUMER = "consumer_byte_rate"


def set_quota(
    broker: Broker, key: str, value: float | None, parts: list[tuple[str, str]] = CLIENT
) -> None:
    changes = {entity_of(list(parts)): [QuotaChange(key, value)]}
    make_now(broker.quotas.change(changes))


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    client.broker.controller.create("orders", 1, {})
    return client


def produce(size: int, acks: int = 1) -> ProduceRequest:
    batch = encode_batch([(b"k", bytes(size))], 0, 1)
    partition = ProduceRequestPartition(index=0, records=batch)
    topic = ProduceRequestTopic(name="orders", partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def fetch(max_bytes: int = 1 << 20) -> FetchRequest:
    partition = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchRequestTopic(topic="orders", partitions=[partition])
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, session_epoch=0, topics=[topic]
    )


def fetched_bytes(answer: Any) -> int:
    return sum(len(each.records or b"") for topic in answer.responses for each in topic.partitions)


def is_muted(client: Client) -> bool:
    """Whether another request is not answered."""
    client.send(VERSIONS, 0)
    client.loop.turn()
    return not client.answers()


def test_a_producer_above_its_quota_waits(client: Client) -> None:
    """[quotas/throttling]"""
    broker = client.broker
    set_quota(broker, PRODUCER, 1000)
    # Ten windows may hold 10,000 bytes.
    assert client.call(produce(9000), 9).throttle_time_ms == 0
    answer = client.call(produce(2000), 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert 1000 < answer.throttle_time_ms < 1500
    assert is_muted(client)
    client.loop.advance(answer.throttle_time_ms + 10)
    client.loop.turn()
    assert len(client.answers()) == 1
    # Others are not concerned.
    assert Client(broker, client_id="other").call(produce(50_000), 9).throttle_time_ms == 0


def test_a_producer_without_responses_is_muted(client: Client) -> None:
    client.call(produce(1), 9)
    set_quota(client.broker, PRODUCER, 1000)
    client.send(produce(20_000, acks=0), 9)
    assert is_muted(client)


def test_a_throttled_fetch_has_no_records_and_no_session(client: Client) -> None:
    client.call(produce(6000), 9)
    set_quota(client.broker, CONSUMER, 1000)
    first = client.call(fetch(), 11)
    assert fetched_bytes(first) > 6000
    assert first.session_id != 0
    second = client.call(fetch(), 11)
    assert second.throttle_time_ms > 1000
    assert (second.responses, second.session_id) == ([], 0)
    assert client.broker.fetch_sessions.session_count == 1
    client.loop.advance(60_000)
    client.loop.turn()
    # Its bytes were not counted.
    assert fetched_bytes(client.call(fetch(), 11)) > 6000


def test_the_time_of_requests_counts(client: Client) -> None:
    set_quota(client.broker, "request_percentage", 0.000001)
    assert client.call(VERSIONS, 2).throttle_time_ms > 0
    assert is_muted(client)


def test_large_response_is_throttled_and_encoded_in_steps(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode_at_once(*_: object) -> bytes:
        raise AssertionError

    set_quota(client.broker, "request_percentage", 0.000001)
    monkeypatch.setattr("coterie.server.quotas.routes._Call.frame", encode_at_once)
    names = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(600)]
    answer = client.call(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
    assert [each.name for each in answer.topics] == [each.name for each in names]
    assert answer.throttle_time_ms > 0
    assert is_muted(client)


def test_routes_are_plain_without_quotas(client: Client) -> None:
    plain = client.broker.routes.load(18 << 16)
    set_quota(client.broker, PRODUCER, 1)
    assert client.broker.routes.load(18 << 16).handle != plain.handle
    set_quota(client.broker, PRODUCER, None)
    assert client.broker.routes.load(18 << 16).handle == plain.handle
    set_quota(client.broker, "connection_creation_rate", 1, [("ip", "::1")])
    assert client.broker.routes.load(18 << 16).handle == plain.handle


def create(client: Client, name: str, partitions: int, version: int = 7) -> tuple[int, int]:
    topic = CreateTopicsRequestTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), version)
    return answer.topics[0].error_code, answer.throttle_time_ms


def test_changes_of_topics_are_refused_or_throttled(client: Client) -> None:
    """[quotas/token-bucket]"""
    set_quota(client.broker, "controller_mutation_rate", 1)
    assert create(client, "a", 10) == (0, 0)
    assert create(client, "b", 4) == (0, 0)
    refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    error, wait_ms = create(client, "c", 1)
    assert (error, wait_ms) == (refused, 3000)
    others = [Client(client.broker) for _ in range(3)]
    assert create(others[0], "c", 1, 5) == (0, 4000)
    deletion = DeleteTopicsRequest(
        topics=[DeleteTopicsRequestTopic(name="a")], topic_names=[], timeout_ms=1000
    )
    answer = others[1].call(deletion, 6)
    assert (answer.responses[0].error_code, answer.throttle_time_ms) == (refused, 4000)
    growth = CreatePartitionsRequestTopic(name="a", count=11, assignments=None)
    request = CreatePartitionsRequest(topics=[growth], timeout_ms=1000, validate_only=False)
    answer = others[2].call(request, 3)
    assert (answer.results[0].error_code, answer.throttle_time_ms) == (refused, 4000)


def test_connections_above_the_rate_are_closed_unserved(client: Client) -> None:
    """[quotas/connection-rate]"""
    broker = client.broker
    set_quota(broker, "connection_creation_rate", 1, [("ip", "localhost")])
    served = [Client(broker) for _ in range(10)]
    assert not any(is_muted(each) for each in served)
    refused = Client(broker)
    assert is_muted(refused)
    assert not is_muted(Client(broker, host="10.0.0.1"))
    client.loop.advance(1010)
    client.loop.turn()
    assert refused.transport.closed


def test_a_quota_that_is_no_number_throttles_nothing(client: Client) -> None:
    """[quotas/no-number]"""
    for key in (PRODUCER, "request_percentage", "controller_mutation_rate"):
        set_quota(client.broker, key, math.nan)
    for _ in range(3):
        assert client.call(produce(20_000), 9).throttle_time_ms == 0
    assert [create(client, name, 100) for name in "ab"] == [(0, 0)] * 2


def test_a_fetch_with_a_quota_that_is_no_number_has_one_batch(client: Client) -> None:
    """[quotas/no-number]"""
    client.call(produce(6000), 9)
    client.call(produce(6000), 9)
    whole = fetched_bytes(client.call(fetch(), 4))
    set_quota(client.broker, CONSUMER, math.nan)
    answer = client.call(fetch(), 4)
    assert (answer.throttle_time_ms, fetched_bytes(answer)) == (0, whole // 2)
    at_end = fetch()
    at_end.min_bytes, at_end.max_wait_ms = 1, 1000
    at_end.topics[0].partitions[0].fetch_offset = 2
    assert fetched_bytes(client.call(at_end, 4)) == 0


def test_connections_of_a_rate_that_is_no_number_are_closed_unserved(client: Client) -> None:
    """[quotas/no-number]"""
    set_quota(client.broker, "connection_creation_rate", math.nan, [("ip", "localhost")])
    refused = Client(client.broker)
    assert is_muted(refused)
    client.loop.advance(1010)
    client.loop.turn()
    assert refused.transport.closed


def limits_of(*quotas: tuple[list[tuple[str, str | None]], float]) -> Throttling:
    found = Throttling(Config())
    found.take([(entity_of(parts), {PRODUCER: value}) for parts, value in quotas])
    return found


@pytest.mark.parametrize(
    ("user", "client_id", "value", "shared_by"),
    [
        ("User:a", "x", 1, ("a", "x")),
        ("User:a", "z", 2, ("a", "z")),
        ("User:b", "x", 3, ("b", "")),
        ("User:c", "x", 4, ("c", "x")),
        ("User:c", "z", 5, ("c", "z")),
    ],
)
def test_the_most_specific_quota_counts(
    user: str, client_id: str, value: float, shared_by: tuple[str, str]
) -> None:
    """[quotas/precedence]"""
    limits = limits_of(
        ([("client-id", None)], 8),
        ([("client-id", "x")], 7),
        ([("user", None)], 6),
        ([("user", None), ("client-id", None)], 5),
        ([("user", None), ("client-id", "x")], 4),
        ([("user", "b")], 3),
        ([("user", "a"), ("client-id", None)], 2),
        ([("user", "a"), ("client-id", "x")], 1),
    )
    found = limits.limit(PRODUCER, user, client_id)
    assert found is not None
    assert (found.value, found.shared_by) == (value, shared_by)


@pytest.mark.parametrize(
    ("client_id", "value", "shared_by"), [("x", 7, ("", "x")), ("z", 8, ("", "z"))]
)
def test_client_ids_count_last(client_id: str, value: float, shared_by: tuple[str, str]) -> None:
    limits = limits_of(([("client-id", None)], 8), ([("client-id", "x")], 7))
    found = limits.limit(PRODUCER, "User:a", client_id)
    assert found is not None
    assert (found.value, found.shared_by) == (value, shared_by)


def test_rates_of_idle_clients_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttling, "_RATES_BEFORE_PRUNING", 2)
    limits = limits_of(([("client-id", None)], 1000))
    for number in range(10):
        limits.record(PRODUCER, "User:a", f"client-{number}", 1, 20_000 * number)
    assert len(limits._rates) <= 2
