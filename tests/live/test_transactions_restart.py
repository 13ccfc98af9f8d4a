"""A broker is killed in an open transaction, and its producer goes on after the restart."""

from collections.abc import Callable

import confluent_kafka

from demo.producer import QUIET_LOG_LEVEL
from tests.live.broker_process import BrokerProcess
from tests.live.conftest import create_topic

LIMIT_S = 60.0


def committed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """Return the first committed records of a topic."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(LIMIT_S)
        assert message is not None, f"only {found} became visible"
        assert message.error() is None, message.error()
        value = message.value()
        assert value is not None
        found.append(value)
    consumer.close()
    return found


def test_producer_goes_on_after_a_kill(
    start_broker: Callable[..., BrokerProcess], name: str
) -> None:
    """An aborted transaction stays invisible, an open one survives the kill and is committed."""
    broker = start_broker()
    create_topic(broker.bootstrap, name, 1)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": name,
            "log_level": QUIET_LOG_LEVEL,
        }
    )
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(name, b"aborted", partition=0)
    producer.flush(LIMIT_S)
    producer.abort_transaction(LIMIT_S)
    producer.begin_transaction()
    producer.produce(name, b"before", partition=0)
    assert producer.flush(LIMIT_S) == 0
    broker.kill()
    broker.start()
    producer.produce(name, b"after", partition=0)
    producer.commit_transaction(LIMIT_S)
    assert committed(broker.bootstrap, name, 2) == [b"before", b"after"]
