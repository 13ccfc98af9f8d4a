"""A member with confluent-kafka (librdkafka), whose callbacks run inside consume."""

import sys
from collections.abc import Iterator
from typing import Any

import confluent_kafka

from coterie.lab.live.members.application import POLL_S, Application

_MAX_RECORDS = 500
_METADATA_MAGIC = b"CGMDv2:"


def settings(application: Application) -> dict[str, Any]:
    """Return the configuration of the consumer."""
    options = application.options
    made: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "client.id": options.client_id,
        "group.id": options.group,
        "max.poll.interval.ms": options.rebalance_ms,
        "topic.metadata.refresh.interval.ms": options.metadata_age_ms,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
    }
    if options.machine == "consumer":
        # Session and heartbeat interval of KIP-848 are settings of the broker.
        made["group.protocol"] = "consumer"
    else:
        cooperative = options.machine == "cooperative"
        made["partition.assignment.strategy"] = "cooperative-sticky" if cooperative else "range"
        made["session.timeout.ms"] = options.session_ms
        made["heartbeat.interval.ms"] = options.heartbeat_ms
    if options.instance is not None:
        made["group.instance.id"] = options.instance
    return made


def run(application: Application) -> None:
    """Read until the member is asked to stop."""
    consumer = confluent_kafka.Consumer(settings(application))

    def revoke(_: object, partitions: list[Any]) -> None:
        commit(consumer, application)
        application.generation(generation(consumer))
        application.revoked(partitions)

    def assign(_: object, partitions: list[Any]) -> None:
        application.generation(generation(consumer))
        application.assigned(partitions)

    consumer.subscribe(
        application.options.topics,
        on_assign=assign,
        on_revoke=revoke,
        on_lost=lambda _, partitions: application.revoked(partitions, "lost"),
    )
    while not application.stopping.is_set():
        records = consumer.consume(_MAX_RECORDS, POLL_S)
        application.generation(generation(consumer))
        application.take(batches(application, records))
        application.work()
        if application.commit_is_due():
            commit(consumer, application)
    application.ending()
    commit(consumer, application)
    consumer.close()


def batches(
    application: Application, records: list[confluent_kafka.Message]
) -> Iterator[tuple[str, int, int, int]]:
    """Yield the first and the last offset of each partition."""
    found: dict[tuple[str, int], list[int]] = {}
    for record in records:
        error = record.error()
        if error is not None:
            application.failed(RuntimeError(error.str()))
            continue
        key = str(record.topic()), int(record.partition() or 0)
        found.setdefault(key, []).append(int(record.offset() or 0))
    for (topic, number), offsets in found.items():
        yield topic, number, offsets[0], offsets[-1]


def generation(consumer: confluent_kafka.Consumer) -> int:
    """Return the generation, or the member epoch of KIP-848; -1 outside of a group."""
    metadata: Any = consumer.consumer_group_metadata()
    if not isinstance(metadata, bytes) or not metadata.startswith(_METADATA_MAGIC):
        return -1
    number = metadata[len(_METADATA_MAGIC) : len(_METADATA_MAGIC) + 4]
    return int.from_bytes(number, sys.byteorder, signed=True)


def commit(consumer: confluent_kafka.Consumer, application: Application) -> None:
    """Commit what was read."""
    offsets = dict(application.positions)
    listed = [confluent_kafka.TopicPartition(*each, offset) for each, offset in offsets.items()]
    try:
        if listed:
            consumer.commit(offsets=listed, asynchronous=False)
        application.committed(offsets)
    except confluent_kafka.KafkaException as error:
        application.failed(error)


if __name__ == "__main__":
    run(Application())
