"""A consumer with a group instance id (KIP-345), so that a quick restart costs no rebalance."""

from collections.abc import Callable, Mapping
from typing import Any

from kafka import KafkaConsumer

POLL_MS = 500


def run(
    config: Mapping[str, Any],
    topic: str,
    instance_id: str,
    handle: Callable[[bytes], None],
    is_stopping: Callable[[], bool],
) -> None:
    """Handle the records of a topic as the member `instance_id`, until `is_stopping` is true."""
    consumer = KafkaConsumer(topic, group_instance_id=instance_id, **config)
    try:
        while not is_stopping():
            for records in consumer.poll(POLL_MS).values():
                for record in records:
                    handle(record.value)
    finally:
        consumer.close()
