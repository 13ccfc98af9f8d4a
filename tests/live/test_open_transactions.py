"""A transaction that is open when the broker is killed."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from demo.producer import QUIET_LOG_LEVEL
from tests.live.broker_process import BrokerProcess
from tests.live.conftest import create_topic
from tests.live.deadlines import eventually

LIMIT_S = 60.0
ABORTED, FIRST, SECOND = b"aborted", b"before the kill", b"after the kill"


class Reader:
    """Reads a partition at isolation level read_committed."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.values: list[bytes] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": QUIET_LOG_LEVEL,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def poll(self) -> list[bytes]:
        """Return all values so far."""
        message = self._consumer.poll(0.1)
        value = None if message is None or message.error() else message.value()
        if isinstance(value, bytes):
            self.values.append(value)
        return self.values

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def reader_of() -> Iterator[Callable[[str, str], Reader]]:
    readers: list[Reader] = []

    def start(bootstrap: str, topic: str) -> Reader:
        readers.append(Reader(bootstrap, topic))
        return readers[-1]

    yield start
    for reader in readers:
        reader.close()


@pytest.mark.timeout(180)
def test_open_transaction_survives_a_kill(
    start_broker: Callable[..., BrokerProcess],
    reader_of: Callable[[str, str], Reader],
    name: str,
) -> None:
    """The same producer goes on with its transaction and commits it; aborted records stay away."""
    server = start_broker({})
    create_topic(server.bootstrap, name, 1)
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "transactional.id": name,
            "reconnect.backoff.max.ms": 500,
            "log_level": QUIET_LOG_LEVEL,
        }
    )
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(name, ABORTED, partition=0)
    assert producer.flush(LIMIT_S) == 0
    producer.abort_transaction(LIMIT_S)
    producer.begin_transaction()
    producer.produce(name, FIRST, partition=0)
    assert producer.flush(LIMIT_S) == 0
    server.kill()
    server.start()
    reader = reader_of(server.bootstrap, name)
    producer.produce(name, SECOND, partition=0)
    assert producer.flush(LIMIT_S) == 0
    # What a reader of everything could see by now is not read.
    assert reader.poll() == []
    producer.commit_transaction(LIMIT_S)
    eventually(lambda: len(reader.poll()) >= 2, "both records are read", LIMIT_S)
    assert reader.values == [FIRST, SECOND]
