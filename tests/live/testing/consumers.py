"""Consumers of three libraries that poll in a thread until the end of a block."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import kafka

from coterie.testing import Broker

POLL_S = 0.5


@contextmanager
def kafka_python(broker: Broker, group_id: str, *topics: str, **more: Any) -> Iterator[list[bytes]]:
    """A consumer of kafka-python; the list receives the values that it reads."""
    config = broker.client_config("kafka-python", group_id=group_id, **more)
    consumer = kafka.KafkaConsumer(*topics, **config)
    # Known before the first join: see reading/starts-each-time in client_findings.tsv.
    consumer.topics()
    values: list[bytes] = []

    def poll() -> None:
        for records in consumer.poll(int(POLL_S * 1000)).values():
            values.extend(record.value for record in records)

    with _polling(poll, consumer.close):
        yield values


@contextmanager
def confluent(broker: Broker, group_id: str, *topics: str, **more: Any) -> Iterator[list[bytes]]:
    """A consumer of librdkafka; the list receives the values that it reads."""
    config = broker.client_config("confluent-kafka", group_id=group_id, **more)
    consumer = confluent_kafka.Consumer({"log_level": 0, **config})
    consumer.subscribe(list(topics))
    values: list[bytes] = []

    def poll() -> None:
        message = consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")

    with _polling(poll, consumer.close):
        yield values


@contextmanager
def _polling(poll: Callable[[], None], close: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()
    failures: list[Exception] = []

    def run() -> None:
        try:
            while not ended.is_set():
                poll()
        except Exception as error:
            failures.append(error)
        finally:
            close()

    thread = threading.Thread(target=run, name="consumer")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(30)
    assert not thread.is_alive(), "the consumer does not end"
    if failures:
        raise failures[0]
