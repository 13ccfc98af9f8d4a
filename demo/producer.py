"""A producer that keeps writing while other things happen, and knows what was stored.

The demo and the live tests use it.
"""

import threading

import confluent_kafka

# Below librdkafka's default, which prints a line for each broker that goes away.
QUIET_LOG_LEVEL = 2
FLUSH_LIMIT_S = 60.0


class SteadyProducer:
    """Writes numbered records at an even pace, round robin over all partitions.

    It is idempotent, so that a broker which goes away and comes back gets every record once.

    Attributes:
        stored: partition and offset of the records that the broker has acknowledged.
        failures: error messages of records that the broker did not accept.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_second: float) -> None:
        self.stored: set[tuple[int, int]] = set()
        self.failures: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._pause_s = 1 / per_second
        self._stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": QUIET_LOG_LEVEL,
                # Shorter than the default of 10 s, so that a restarted broker is found soon.
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
                self._topic,
                value=b"%d" % number,
                partition=number % self._partitions,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)
            number += 1

    def _delivered(
        self, error: confluent_kafka.KafkaError | None, record: confluent_kafka.Message
    ) -> None:
        partition, offset = record.partition(), record.offset()
        if error is not None:
            self.failures.append(error.str())
        elif partition is not None and offset is not None:
            self.stored.add((partition, offset))

    def stop(self) -> None:
        """Stop, and wait until the broker has responded to every record."""
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_LIMIT_S)
        if left:
            self.failures.append(f"there was no response for {left} records")

    def abandon(self) -> None:
        """Stop at once, and discard the records without a response."""
        self._stopping.set()
        self._thread.join()
        self._producer.purge()
