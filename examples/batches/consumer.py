"""A consumer that handles records in batches and commits each batch by hand."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

BATCH = 10
POLL_S = 0.2


def run(
    config: Mapping[str, Any],
    topic: str,
    handle: Callable[[list[bytes]], None],
    is_stopping: Callable[[], bool],
) -> None:
    """Handle the records of a topic in batches until `is_stopping` returns true.

    A batch is committed after it was handled. If `handle` raises, its batch is read again by the
    next consumer.
    """
    consumer = Consumer({**config, "enable.auto.commit": False})
    consumer.subscribe([topic])
    try:
        while not is_stopping():
            records: list[Message] = consumer.consume(BATCH, POLL_S)
            values = [each.value() or b"" for each in records if each.error() is None]
            if values:
                handle(values)
                _commit(consumer)
    finally:
        consumer.close()


def _commit(consumer: Consumer) -> None:
    """Commit; librdkafka gives up after a few tries while the coordinator loads."""
    while True:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            time.sleep(POLL_S)
        else:
            return
