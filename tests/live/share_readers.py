"""librdkafka's ShareConsumer for the live tests, and settings with which it is quick."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import AcknowledgeType, Message, ShareConsumer

# Members join within a second or two, and locks end soon.
SETTINGS = {
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.record.lock.duration.ms": "2000",
    "group.share.min.record.lock.duration.ms": "1000",
}
POLL_S = 0.2


class Reader:
    """A share consumer that acknowledges explicitly, and what it was given.

    Attributes:
        consumer: the client.
        given: value and delivery count of each record, in order.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "share.acknowledgement.mode": "explicit",
            }
        )
        self.consumer.subscribe([topic])
        self.given: list[tuple[bytes | None, int | None]] = []

    def poll(self) -> list[Message]:
        """Poll once; return the records, which are acquired now."""
        messages = list(self.consumer.poll(POLL_S))
        for message in messages:
            assert message.error() is None
            self.given.append((message.value(), message.delivery_count()))
        return messages

    def work(self, decide: Callable[[bytes | None, int | None], AcknowledgeType]) -> None:
        """Poll once, and acknowledge each record as it is decided."""
        messages = self.poll()
        for message in messages:
            decision = decide(message.value(), message.delivery_count())
            self.consumer.acknowledge(message, decision)
        if messages:
            self.consumer.commit_sync()


@contextmanager
def reader(bootstrap: str, topic: str) -> Iterator[Reader]:
    """A member of the share group, which leaves at the end."""
    made = Reader(bootstrap, topic)
    try:
        yield made
    finally:
        made.consumer.close()


def accept(_value: bytes | None, _count: int | None) -> AcknowledgeType:
    return AcknowledgeType.ACCEPT
