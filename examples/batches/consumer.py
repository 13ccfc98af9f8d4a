"""A consumer that handles records in batches and commits each batch by hand."""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, Message

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
                consumer.commit(asynchronous=False)
    finally:
        consumer.close()
