"""Kafka goes on with our partitions that have an open transaction, and we with those of Kafka.

A transactional producer leaves one transaction open behind committed and aborted ones. The files of
the partition move to the other broker, which must find the same last stable offset, the same
producers and the same committed records; then a marker ends the transaction there. Kafka's dump
tool reads our transaction index and our snapshot.
"""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from coterie.processes import Child
from coterie.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Failed, Surroundings
from tests.interop.requests import ask, latest_offsets, producers_of
from tests.interop.topics import CommittedReader, create_topics
from tests.live.broker_process import BrokerProcess

_LIMIT_S = 60.0
# What stays where it is when a partition's files move: it has the id of the topic.
_METADATA = "partition.metadata"


class Found(NamedTuple):
    """What a broker says of the partition."""

    end_offset: int
    last_stable_offset: int
    producers: list[tuple[int, ...]]
    committed: list[bytes]


def run(around: Surroundings) -> None:
    """Move the partition in both directions."""
    kafka = KafkaNode(around)
    topic = around.name("moved")
    ours = BrokerProcess(around.directory / "ours", {})
    ours.start()
    try:
        _to_kafka(around, kafka, ours, topic)
    finally:
        if ours in BrokerProcess.running:
            ours.kill()
    _from_kafka(around, kafka, around.name("back"))


def _to_kafka(around: Surroundings, kafka: KafkaNode, ours: BrokerProcess, topic: str) -> None:
    create_topics(ours.bootstrap, {topic: 1})
    producer = _write(ours.bootstrap, topic)
    before = _look(ours.bootstrap, topic)
    ours.stop()
    files = around.directory / "ours" / f"{topic}-0"
    dumped = "".join(
        kafka.run("org.apache.kafka.tools.DumpLogSegments", "--files", str(path))
        for path in sorted(files.iterdir())
        if path.suffix in (".snapshot", ".txnindex")
    )
    for text in (f"producerId: {before.producers[0][0]}", "currentTxnFirstOffset: OptionalLong["):
        if text not in dumped:
            raise Failed(f"the dump tool does not print {text!r}:\n{dumped}")
    child = kafka.start()
    create_topics(kafka.bootstrap, {topic: 1})
    _stop(child)
    _replace(files, kafka.logs / f"{topic}-0")
    child = kafka.start()
    _compare("Kafka with our files", before, _look(kafka.bootstrap, topic))
    _end(kafka.bootstrap, topic)
    _stop(child)
    del producer
    around.note(f"Kafka found {len(before.producers)} producer and an open transaction of ours")


def _from_kafka(around: Surroundings, kafka: KafkaNode, topic: str) -> None:
    child = kafka.start()
    create_topics(kafka.bootstrap, {topic: 1})
    producer = _write(kafka.bootstrap, topic)
    before = _look(kafka.bootstrap, topic)
    child.signal(signal.SIGKILL)
    child.process.wait(_LIMIT_S)
    copy = around.directory / "from-kafka"
    shutil.copytree(kafka.logs, copy)
    ours = BrokerProcess(copy, {})
    ours.start()
    try:
        _compare("we with the files of Kafka", before, _look(ours.bootstrap, topic))
        _end(ours.bootstrap, topic)
    finally:
        ours.stop()
    del producer
    around.note("we found that of a Kafka that was killed")


def _stop(child: Child) -> None:
    child.signal(signal.SIGTERM)
    child.process.wait(_LIMIT_S)


def _replace(files: Path, target: Path) -> None:
    """Replace the files of a partition of a stopped broker."""
    for path in target.iterdir():
        if path.name != _METADATA:
            path.unlink()
    for path in files.iterdir():
        if path.name != _METADATA:
            shutil.copy(path, target / path.name)


def _write(bootstrap: str, topic: str) -> Producer:
    """Commit, abort, and leave a transaction open; return its producer, which must stay."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"writes-{topic}",
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(_LIMIT_S)
    ends: list[Callable[[float], object]] = [
        producer.commit_transaction,
        producer.abort_transaction,
        producer.commit_transaction,
        producer.abort_transaction,
    ]
    for number, end in enumerate(ends):
        producer.begin_transaction()
        for index in range(3):
            producer.produce(topic, b"%d-%d" % (number, index), key=b"k", partition=0)
        producer.flush(_LIMIT_S)
        end(_LIMIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    if producer.flush(_LIMIT_S):
        raise Failed("a record of the open transaction was not acknowledged")
    return producer


def _look(bootstrap: str, topic: str) -> Found:
    end, stable = latest_offsets(bootstrap, topic)
    reader = CommittedReader(bootstrap, {topic: 1})
    values: list[bytes] = []
    for message in reader.records(_LIMIT_S):
        if message is None and len(values) >= 6:
            break
        value = None if message is None else message.value()
        if isinstance(value, bytes):
            values.append(value)
    reader.close()
    return Found(end, stable, producers_of(bootstrap, topic), values)


def _end(bootstrap: str, topic: str) -> None:
    """Abort the open transaction with a marker."""
    ((producer_id, epoch, _, _, coordinator_epoch, _),) = producers_of(bootstrap, topic)
    marker = WriteTxnMarkersRequestMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WriteTxnMarkersRequestTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
    )
    ask(bootstrap, WriteTxnMarkersRequest(markers=[marker]), 1)
    end, stable = latest_offsets(bootstrap, topic)
    if end != stable:
        raise Failed(f"a marker was written, and the last stable offset is {stable}, not {end}")


def _compare(who: str, before: Found, after: Found) -> None:
    for name, was, found in zip(Found._fields, before, after, strict=True):
        if was != found:
            raise Failed(f"{who}: {name} is {found} and was {was}")
