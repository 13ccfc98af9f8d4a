"""A producer that never stops while a test does things to the group that reads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka

from tests.live.groups import QUIET

FLUSH_LIMIT_S = 60.0


class SteadyProducer:
    """Produces numbered records round robin over all partitions until told to stop.

    Idempotent, so a broker that goes away and comes back gets each record once; what the broker
    acknowledged is known exactly.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_second: float) -> None:
        self.topic = topic
        self.partitions = partitions
        self._pause_s = 1 / per_second
        self._stopping = threading.Event()
        self._acknowledged: set[tuple[str, int, int]] = set()
        self._failures: list[confluent_kafka.KafkaError] = []
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": QUIET,
                "reconnect.backoff.max.ms": 500,
                "message.timeout.ms": int(FLUSH_LIMIT_S * 1000),
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(self._pause_s):
            self._producer.produce(
                self.topic,
                value=b"%d" % number,
                partition=number % self.partitions,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)
            number += 1

    def _delivered(
        self, error: confluent_kafka.KafkaError | None, record: confluent_kafka.Message
    ) -> None:
        if error is not None:
            self._failures.append(error)
        else:
            self._acknowledged.add((record.topic(), record.partition(), record.offset()))

    def stop(self) -> set[tuple[str, int, int]]:
        """Stop, wait for every answer; returns (topic, partition, offset) of what is stored."""
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_LIMIT_S)
        assert not self._failures, self._failures[:3]
        assert left == 0, f"{left} records are still unanswered"
        return self._acknowledged


@contextmanager
def producing(
    bootstrap: str, topic: str, partitions: int, per_second: float = 200
) -> Iterator[SteadyProducer]:
    """A steady producer that is stopped at the end, also when the test fails."""
    producer = SteadyProducer(bootstrap, topic, partitions, per_second)
    try:
        yield producer
    finally:
        producer._stopping.set()
