"""Kafka finishes the transactions in a data directory of ours, and we those in one of Kafka's.

One directory, made by Kafka, is used by both in turn. Each is killed while transactions are open,
decided and ended (see `left_transactions.py`), and the other one must end each of them as it was
decided, with records, offsets of groups and producers. In between the dump tools of both print what
the killed broker has left.
"""

import shlex
import signal
import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from coterie.processes import BrokerProcess, Child
from tests.interop.dumped import compare_dumps
from tests.interop.kafka_node import KafkaNode
from tests.interop.left_transactions import CONFIG, PARTITIONS, WITHOUT_MARKERS, LeftTransactions
from tests.interop.model import Failed, Surroundings
from tests.interop.topics import create_topics

_LIMIT_S = 60.0
# The transactional ids of both, each of which has a producer id of its own.
_PRODUCERS = 14
_CUT_OFF = Path(__file__).with_name("_cut_off_broker.py")


def run(around: Surroundings) -> None:
    """Use one directory in turn."""
    kafka = KafkaNode(around)
    kafka.configure(CONFIG)
    first, second = (LeftTransactions(around.name(who)) for who in ("ours", "kafkas"))
    child = kafka.start()
    create_topics(kafka.bootstrap, {each.topic: PARTITIONS for each in (first, second)})
    _create_own_topics(kafka.bootstrap, first.topic)
    _end(child, signal.SIGTERM)

    ours = BrokerProcess(
        kafka.logs, CONFIG, f"{shlex.quote(sys.executable)} {_CUT_OFF} {WITHOUT_MARKERS}"
    )
    ours.start()
    try:
        first.end_some(ours.bootstrap)
        # A stop in order leaves snapshots of producers.
        ours.stop()
        ours.start()
        first.leave_others(ours.bootstrap)
    finally:
        ours.kill()
    entries = compare_dumps(kafka, kafka.logs)
    child = kafka.start()
    first.end_all(around, kafka.bootstrap)
    around.note("Kafka has ended ours")

    second.end_some(kafka.bootstrap)
    _end(child, signal.SIGTERM)
    kafka.cut_off_markers()
    child = kafka.start()
    second.leave_others(kafka.bootstrap)
    _end(child, signal.SIGKILL)
    entries += compare_dumps(kafka, kafka.logs)
    ours = BrokerProcess(kafka.logs, CONFIG)
    ours.start()
    try:
        second.end_all(around, ours.bootstrap)
        ids = first.producer_ids(ours.bootstrap), second.producer_ids(ours.bootstrap)
        if len(ids[0] | ids[1]) != _PRODUCERS:
            raise Failed(f"producer ids were given twice: {ids}")
    finally:
        ours.stop()
    around.note("we have ended Kafka's")
    around.note(f"the dump tools of both print the same {entries} entries")


def _create_own_topics(bootstrap: str, topic: str) -> None:
    """Let Kafka create the topics of its coordinators: those in our files need its ids."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "first"})
    producer.init_transactions(_LIMIT_S)


def _end(child: Child, number: signal.Signals) -> None:
    child.signal(number)
    child.process.wait(_LIMIT_S)
