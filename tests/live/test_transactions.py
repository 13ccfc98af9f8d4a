"""Transactions: supported as in Kafka, or refused with an error that names the cause."""

import asyncio
import time
from collections.abc import Callable

import aiokafka
import confluent_kafka
import pytest

from demo.producer import QUIET_LOG_LEVEL
from tests.live import libraries
from tests.live.broker_process import Broker
from tests.live.libraries import Message
from tests.live.libraries.kafka_python import kafka

ADD_PARTITIONS_TO_TXN = 24
LIMIT_S = 60.0


def transaction_of_kafka_python(bootstrap: str, topic: str, transactional_id: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id=transactional_id,
        max_block_ms=int(LIMIT_S * 1000),
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"in a transaction", partition=0)
        producer.commit_transaction()
    finally:
        producer.close(timeout=1)


def transaction_of_aiokafka(bootstrap: str, topic: str, transactional_id: str) -> None:
    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id
        )
        try:
            await producer.start()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"in a transaction", partition=0)
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(run(), LIMIT_S))


def transaction_of_confluent(bootstrap: str, topic: str, transactional_id: str) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "log_level": QUIET_LOG_LEVEL,
        }
    )
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction", partition=0)
    producer.commit_transaction(LIMIT_S)


TRANSACTION = {
    "kafka-python": transaction_of_kafka_python,
    "aiokafka": transaction_of_aiokafka,
    "confluent": transaction_of_confluent,
}


def test_transactions_are_supported_or_refused_by_name(
    broker: Broker, make_topic: Callable[..., str], library: libraries.Library
) -> None:
    """A broker without transactions refuses them at once, and other records are not affected.

    A broker with transactions announces AddPartitionsToTxn among its APIs.
    """
    topic = make_topic()
    run = TRANSACTION[library.name]
    if broker.serves(ADD_PARTITIONS_TO_TXN):
        run(broker.bootstrap, topic, topic)
        (record,) = library.consume(broker.bootstrap, topic, 1, 1)
        assert record.value == b"in a transaction"
        return
    began = time.monotonic()
    with pytest.raises(Exception, match=r"(?i)transaction|unsupported|not.?support") as refused:
        run(broker.bootstrap, topic, topic)
    assert time.monotonic() - began < LIMIT_S - 1, f"only gave up: {refused.value!r}"
    # The topic still accepts records of an idempotent producer.
    sent = library.produce(
        broker.bootstrap,
        topic,
        [Message(b"plain", partition=0)],
        libraries.Sending(idempotent=True),
    )
    assert sent == [0]
