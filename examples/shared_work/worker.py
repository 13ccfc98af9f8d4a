"""A worker of a share group: each record is acknowledged by itself, after it was handled."""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import AcknowledgeType, Message, ShareConsumer

POLL_S = 0.2


class Unusable(Exception):  # noqa: N818 - the name says what the record is
    """A record that nobody can handle, however often it is tried."""


def run(
    config: Mapping[str, Any],
    topic: str,
    handle: Callable[[bytes], object],
    is_stopping: Callable[[], bool],
) -> None:
    """Handle the records of a topic until `is_stopping` returns true.

    A record whose handling fails is released, so that it is delivered again, to any worker, as
    often as the group allows. One that is `Unusable` is rejected.
    """
    consumer = ShareConsumer({**config, "share.acknowledgement.mode": "explicit"})
    consumer.subscribe([topic])
    try:
        while not is_stopping():
            for message in consumer.poll(POLL_S):
                if message.error() is None:
                    consumer.acknowledge(message, _handled(message, handle))
                    consumer.commit_sync()
    finally:
        consumer.close()


def _handled(message: Message, handle: Callable[[bytes], object]) -> AcknowledgeType:
    try:
        handle(message.value() or b"")
    except Unusable:
        return AcknowledgeType.REJECT
    except Exception:  # noqa: BLE001 - whatever it was, another try may succeed
        return AcknowledgeType.RELEASE
    return AcknowledgeType.ACCEPT
