"""A real consumer reads through a fetch session [data-plane/fetch-sessions]."""

import logging
from collections.abc import Callable

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.live.broker_process import Broker
from tests.live.deadlines import eventually

PARTITIONS = 20
OPENED = "created a new incremental fetch session"
CONTINUED = "sent an incremental fetch response for session"


def test_consumer_of_many_partitions_uses_a_session(
    broker: Broker, make_topic: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    """Partitions are read, advanced, dropped and taken again; no record is lost or read twice."""
    topic = make_topic(partitions=PARTITIONS)
    everything = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
    )
    read: list[bytes] = []

    def has_read(count: int) -> bool:
        for records in consumer.poll(timeout_ms=200).values():
            read.extend(record.value for record in records)
        return len(read) >= count

    def produce(name: str, partitions: range) -> None:
        for index in partitions:
            producer.send(topic, f"{name}-{index}".encode(), partition=index)
        producer.flush()

    try:
        with caplog.at_level(logging.DEBUG, logger="kafka.consumer.fetcher"):
            consumer.assign(everything)
            produce("all", range(PARTITIONS))
            eventually(lambda: has_read(PARTITIONS), "a record of each partition")
            produce("some", range(3))
            eventually(lambda: has_read(PARTITIONS + 3), "the new records")
            consumer.assign(everything[:5])
            produce("dropped", range(5, 8))
            produce("kept", range(2))
            eventually(lambda: has_read(PARTITIONS + 5), "the records of the partitions left")
            assert not any(value.startswith(b"dropped") for value in read)
            consumer.assign(everything)
            for partition in everything[5:]:
                consumer.seek(partition, 1)
            eventually(
                lambda: has_read(PARTITIONS + 8), "the records of the partitions taken again"
            )
    finally:
        consumer.close()
        producer.close()
    assert len(set(read)) == len(read) == PARTITIONS + 8
    assert OPENED in caplog.text
    assert CONTINUED in caplog.text
