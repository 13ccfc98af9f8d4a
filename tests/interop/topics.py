"""Topics for programs: making them, filling them, reading what was committed."""

import time
from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.model import Failed

_LIMIT_S = 30.0
_POLL_S = 0.2
# What a broker that is started again causes.
_PASSING = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)


def create_topics(bootstrap: str, topics: dict[str, int]) -> None:
    """Create topics with these numbers of partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()])
    for each in made.values():
        each.result(_LIMIT_S)


def produce(bootstrap: str, topic: str, records: Iterable[tuple[str, str]]) -> None:
    """Produce keys and values, idempotently.

    Raises:
        Failed: one was not acknowledged.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for key, value in records:
        producer.produce(topic, value.encode(), key=key.encode())
        producer.poll(0)
    if left := producer.flush(_LIMIT_S):
        raise Failed(f"{left} records for {topic} were not acknowledged")


class CommittedReader:
    """Reads topics at isolation level read_committed, from the beginning."""

    def __init__(self, bootstrap: str, topics: dict[str, int]) -> None:
        """Read topics with these numbers of partitions."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"reader-of-{'-'.join(topics)}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign(
            [
                TopicPartition(name, index, 0)
                for name, count in topics.items()
                for index in range(count)
            ]
        )

    def records(self, limit_s: float) -> Iterator[Message | None]:
        """Yield each record as it comes, and None while none comes, for some time."""
        give_up_s = time.monotonic() + limit_s
        while time.monotonic() < give_up_s:
            message = self._consumer.poll(_POLL_S)
            if message is None:
                yield None
                continue
            error = message.error()
            if error is None:
                yield message
            elif error.code() not in _PASSING and not error.retriable():
                raise Failed(f"reading failed: {error}")

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()
