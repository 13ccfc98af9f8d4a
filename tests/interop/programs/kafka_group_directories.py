"""Kafka goes on with the consumer groups in a data directory of ours, and we with those of Kafka.

One directory, made by Kafka, is used by both in turn. Each leaves groups in every state (see
`left_groups.py`), in the middle of an upgrade, too, and is killed. The other one must describe them
in the same way, and let their members go on at the epochs that they have. In between the dump tools
of both print what the killed broker has left.
"""

import signal

from confluent_kafka import Consumer, TopicPartition

from coterie.processes import BrokerProcess, Child
from tests.interop.dumped import compare_dumps
from tests.interop.kafka_node import KafkaNode
from tests.interop.left_groups import CONFIG, PARTITIONS, LeftGroups
from tests.interop.model import Failed, Surroundings
from tests.interop.topics import create_topics

_LIMIT_S = 60.0


def run(around: Surroundings) -> None:
    """Use one directory in turn."""
    kafka = KafkaNode(around, CONFIG)
    first, second = (LeftGroups(around.name(who)) for who in ("ours", "kafkas"))
    child = kafka.start()
    create_topics(kafka.bootstrap, {each.topic: PARTITIONS for each in (first, second)})
    _create_offsets_topic(kafka.bootstrap, first.topic)
    _end(child, signal.SIGTERM)

    ours = BrokerProcess(kafka.logs, CONFIG)
    ours.start()
    try:
        first.leave(around, ours.bootstrap)
        described = first.described(ours.bootstrap)
    finally:
        ours.kill()
    entries = compare_dumps(kafka, kafka.logs, {".log"})
    child = kafka.start()
    _compare(around, described, first, kafka.bootstrap)
    first.go_on(kafka.bootstrap)
    around.note(f"Kafka has gone on with {len(described)} groups of ours")

    second.leave(around, kafka.bootstrap)
    described = second.described(kafka.bootstrap)
    _end(child, signal.SIGKILL)
    entries += compare_dumps(kafka, kafka.logs, {".log"})
    ours.start()
    try:
        _compare(around, described, second, ours.bootstrap)
        second.go_on(ours.bootstrap)
    finally:
        ours.stop()
    around.note("we have gone on with those of Kafka")
    around.note(f"the dump tools of both print the same {entries} entries")


def _compare(
    around: Surroundings, described: dict[str, object], groups: LeftGroups, bootstrap: str
) -> None:
    """Check that a broker describes groups as the one before, as soon as it has loaded them."""
    groups.wait_until_loaded(around, bootstrap)
    found = groups.described(bootstrap)
    for group, before in described.items():
        if found[group] != before:
            raise Failed(f"{group} was {before}\nand is {found[group]}")


def _create_offsets_topic(bootstrap: str, topic: str) -> None:
    """Let Kafka create the topic of the groups: that in our files needs its id."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()


def _end(child: Child, number: signal.Signals) -> None:
    child.signal(number)
    child.wait(_LIMIT_S)
