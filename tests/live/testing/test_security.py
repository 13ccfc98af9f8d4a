"""A broker of a test with TLS: what each client library needs for it, and what it does without."""

import asyncio
import gc
import ssl
from collections.abc import Iterator
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaTimeoutError

from coterie.server.network.connection import Connection
from coterie.testing import Broker, CoordinatorMoves, Security, WrongUse
from coterie.testing.security import EXPIRED, UNTRUSTED, WRONG_HOST
from tests.live.deadlines import eventually

_PATIENCE_S = 30


def with_kafka_python(kafka: Broker, **options: Any) -> list[bytes | None]:
    """Produce a record and consume it."""
    config = kafka.client_config("kafka-python", **options)
    producer = KafkaProducer(**config)
    producer.send("orders", b"espresso").get(_PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(
        "orders", **kafka.client_config("kafka-python", group_id="billing", **options)
    )
    found = consumer.poll(_PATIENCE_S * 1000)
    consumer.close()
    return [each.value for records in found.values() for each in records]


def with_confluent(kafka: Broker, **options: Any) -> list[bytes | None]:
    """Produce a record and consume it."""
    producer = Producer(kafka.client_config("confluent-kafka", **options))
    producer.produce("orders", b"espresso")
    assert producer.flush(_PATIENCE_S) == 0
    consumer = Consumer(kafka.client_config("confluent-kafka", group_id="billing", **options))
    consumer.subscribe(["orders"])
    record = consumer.poll(_PATIENCE_S)
    consumer.close()
    assert record is not None
    return [record.value()]


def with_aiokafka(kafka: Broker, **options: Any) -> list[bytes | None]:
    """Produce a record and consume it."""

    async def run() -> list[bytes | None]:
        async with AIOKafkaProducer(**kafka.client_config("aiokafka", **options)) as producer:
            await producer.send_and_wait("orders", b"espresso")
        config = kafka.client_config("aiokafka", group_id="billing", **options)
        async with AIOKafkaConsumer("orders", **config) as consumer:
            return [(await asyncio.wait_for(consumer.getone(), _PATIENCE_S)).value]

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def garbage_of_clients() -> Iterator[None]:
    """Collect what a client whose handshake has failed leaves, while warnings are ignored."""
    yield
    gc.collect()


CLIENTS = (with_kafka_python, with_aiokafka, with_confluent)


def principals(kafka: Broker) -> set[str]:
    """Return who is connected, when somebody is.

    librdkafka gives its first connection up for another one.
    """
    connections = cast("dict[Connection, str]", kafka.server.connection_quotas._connections)
    return eventually(
        lambda: set(kafka.thread.call(lambda: [each.client.principal for each in connections])),
        "a connection",
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_trust_the_authority(client: Any) -> None:
    with Broker(security="SSL", topics={"orders": 1}) as kafka:
        assert client(kafka) == [b"espresso"]


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_have_certificates(client: Any) -> None:
    security = Security(client_auth="required")
    with Broker(security=security, topics={"orders": 1}) as kafka:
        assert client(kafka, user="alice") == [b"espresso"]


def test_the_principal_is_the_user() -> None:
    with Broker(security=Security(client_auth="requested"), topics={"orders": 1}) as kafka:
        producer = Producer(kafka.client_config("confluent-kafka", user="alice"))
        producer.list_topics("orders", _PATIENCE_S)
        assert principals(kafka) == {"User:alice"}
        del producer


@pytest.mark.parametrize("certificate", [EXPIRED, WRONG_HOST, UNTRUSTED])
def test_each_library_refuses_a_wrong_certificate_of_the_broker(certificate: str) -> None:
    with Broker(security="SSL", topics={"orders": 1}) as kafka:
        kafka.use_certificate(certificate)
        with pytest.raises(KafkaTimeoutError):
            KafkaConsumer("orders", **kafka.client_config("kafka-python", bootstrap_timeout_ms=300))

        async def start() -> None:
            producer = AIOKafkaProducer(**kafka.client_config("aiokafka"))
            try:
                await producer.start()
            finally:
                await producer.stop()

        with pytest.raises(KafkaConnectionError):
            asyncio.run(start())
        with pytest.raises(KafkaException):
            Producer(kafka.client_config("confluent-kafka")).list_topics(timeout=1)
        kafka.use_certificate("valid")
        assert with_confluent(kafka) == [b"espresso"]


@pytest.mark.parametrize("certificate", [EXPIRED, UNTRUSTED])
def test_a_wrong_certificate_of_a_client_is_refused(certificate: str) -> None:
    with Broker(security=Security(client_auth="required"), topics={"orders": 1}) as kafka:
        config = kafka.client_config("confluent-kafka", user="eve", certificate=certificate)
        with pytest.raises(KafkaException):
            Producer(config).list_topics(timeout=1)
        without = kafka.client_config("kafka-python", bootstrap_timeout_ms=300)
        with pytest.raises(KafkaTimeoutError):
            KafkaProducer(**without)


def test_faults_and_restarts_are_those_of_any_broker() -> None:
    with Broker(security="SSL", topics={"orders": 1}) as kafka:
        with kafka.fault(CoordinatorMoves(), group="billing"):
            assert with_confluent(kafka) == [b"espresso"]
        port = kafka.port
        kafka.restart()
        assert kafka.port == port
        assert with_confluent(kafka) == [b"espresso"]


@pytest.mark.kafka(security="SSL", topics={"orders": 1})
def test_the_mark(kafka: Broker) -> None:
    context = kafka.client_config("aiokafka")["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert with_kafka_python(kafka) == [b"espresso"]


def test_wrong_use() -> None:
    with pytest.raises(WrongUse, match="'TLS' is none of: SSL"):
        Broker(security="TLS")
    with pytest.raises(WrongUse, match="client_auth: 'yes' is none of: none, requested, required"):
        Broker(security=Security(client_auth="yes"))
    with (
        Broker(security="SSL") as kafka,
        pytest.raises(WrongUse, match="certificate: 'old' is none of: valid, expired"),
    ):
        kafka.use_certificate("old")
    with Broker() as kafka:
        with pytest.raises(WrongUse, match='make it with security="SSL"'):
            kafka.use_certificate("expired")
        with pytest.raises(WrongUse, match='make it with security="SSL"'):
            kafka.client_config("aiokafka", user="alice")
