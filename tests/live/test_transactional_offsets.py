"""Consume, transform, produce: a client commits the offsets of its input in its transactions."""

from collections.abc import Callable

import confluent_kafka
from confluent_kafka import TopicPartition

from demo.producer import QUIET_LOG_LEVEL
from tests.live.broker_process import Broker
from tests.live.deadlines import eventually

LIMIT_S = 30.0
RECORDS = 3


def test_offsets_are_committed_with_the_transaction(
    broker: Broker, make_topic: Callable[..., str]
) -> None:
    """Every second transaction is aborted, and its input is read and transformed again."""
    source, target = make_topic(), make_topic(suffix="-out")
    config = {"bootstrap.servers": broker.bootstrap, "log_level": QUIET_LOG_LEVEL}
    plain = confluent_kafka.Producer(config)
    for number in range(RECORDS):
        plain.produce(source, str(number).encode(), partition=0)
    assert not plain.flush(LIMIT_S)
    producer = confluent_kafka.Producer({**config, "transactional.id": target})
    consumer = confluent_kafka.Consumer(
        {**config, "group.id": source, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    producer.init_transactions(LIMIT_S)
    place = TopicPartition(source, 0)
    attempts = 0
    while (committed := _committed(consumer, place)) < RECORDS:
        consumer.assign([TopicPartition(source, 0, committed)])
        record = _next(consumer)
        assert record.offset() == committed
        producer.begin_transaction()
        producer.produce(target, record.value(), partition=0)
        producer.send_offsets_to_transaction(
            consumer.position([place]), consumer.consumer_group_metadata(), LIMIT_S
        )
        attempts += 1
        if attempts % 2:
            producer.abort_transaction(LIMIT_S)
        else:
            producer.commit_transaction(LIMIT_S)
    assert attempts == 2 * RECORDS
    consumer.assign([TopicPartition(target, 0, 0)])
    found = [_next(consumer).value() for _ in range(RECORDS)]
    assert found == [str(number).encode() for number in range(RECORDS)]
    consumer.close()


def _committed(consumer: confluent_kafka.Consumer, place: TopicPartition) -> int:
    (found,) = consumer.committed([place], LIMIT_S)
    assert found.error is None
    return max(found.offset, 0)


def _next(consumer: confluent_kafka.Consumer) -> "confluent_kafka.Message[bytes, bytes]":
    """Return the next record."""
    found: list[confluent_kafka.Message[bytes, bytes]] = []

    def polled() -> bool:
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            found.append(record)
        return bool(found)

    eventually(polled, "a record")
    return found[0]
