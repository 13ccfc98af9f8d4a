"""A member of kafka-python: everything but heartbeats happens inside poll()."""

import argparse
import importlib

import kafka
from kafka.errors import KafkaError

from tests.live.member.events import (
    ASSIGNOR_CLASSES,
    BATCH,
    EXIT_FATAL,
    POLL_S,
    Events,
    Orders,
    Partition,
)


class Listener(kafka.ConsumerRebalanceListener):
    """Tells of every callback."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def on_partitions_assigned(self, assigned):
        self._events.partitions("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        self._events.partitions("revoked", revoked)

    def on_partitions_lost(self, lost):
        self._events.partitions("lost", lost)


def run(options: argparse.Namespace, events: Events, orders: Orders) -> int:
    """Be a member until told to stop; returns the exit code."""
    consumer = open_consumer(options)
    listener = Listener(events)
    consumer.subscribe(topics=options.topic, pattern=options.pattern, listener=listener)
    # Fetches the metadata first. Otherwise the leader joins twice, the first time without knowing
    # any partition, and kafka-python 3.0.12 can get stuck in the second round for ever: when a
    # poll runs out of time while the SyncGroup is under way, nobody looks at its answer any more.
    consumer.topics()
    try:
        while not orders.stopped.is_set():
            topics = orders.subscription()
            if topics is not None:
                consumer.subscribe(topics=topics, listener=listener)
            try:
                read_and_commit(consumer, options, events)
            except KafkaError as error:
                events.failed("error", error)
                # What is retriable, such as the refused connection to a broker that is being
                # restarted, is for the next poll to try again.
                if not error.retriable:
                    return EXIT_FATAL
    finally:
        consumer.close()
    return 0


def open_consumer(options: argparse.Namespace) -> kafka.KafkaConsumer:
    """The consumer; only new releases know group_instance_id."""
    static = {} if options.instance is None else {"group_instance_id": options.instance}
    return kafka.KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        client_id=options.client_id,
        group_id=options.group,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_interval_ms,
        max_poll_interval_ms=options.max_poll_interval_ms,
        max_poll_records=BATCH,
        metadata_max_age_ms=options.metadata_max_age_ms,
        partition_assignment_strategy=[assignor(options.assignor)],
        auto_offset_reset=options.auto_offset_reset,
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        # Kept short so that a restarted broker is found again soon; the default is 30 s.
        reconnect_backoff_max_ms=500,
        **static,
    )


def read_and_commit(
    consumer: kafka.KafkaConsumer, options: argparse.Namespace, events: Events
) -> None:
    """One poll, and the commit of what it gave."""
    dirty: dict[Partition, int] = {}
    for records in consumer.poll(timeout_ms=int(POLL_S * 1000)).values():
        for record in records:
            events.record(record.topic, record.partition, record.offset, record.value)
            dirty[record.topic, record.partition] = record.offset + 1
    events.membership(*identity(consumer), consumer.assignment())
    if dirty and options.commit == "each":
        try:
            consumer.commit(as_offsets(dirty))
            events.committed(dirty)
        except KafkaError as error:
            events.failed("commit-failed", error)


def assignor(name: str) -> type:
    """The assignor class of that protocol name."""
    module = importlib.import_module(f"kafka.coordinator.assignors.{name.replace('-', '_')}")
    return getattr(module, ASSIGNOR_CLASSES[name])


def identity(consumer: kafka.KafkaConsumer) -> tuple[int, str]:
    """Generation and member id; releases before 3 keep them to themselves."""
    if hasattr(consumer, "group_metadata"):
        metadata = consumer.group_metadata()
        return metadata.generation_id, metadata.member_id
    generation = consumer._coordinator._generation
    return generation.generation_id, generation.member_id


def as_offsets(offsets: dict[Partition, int]) -> dict[object, object]:
    """Offsets to commit; the leader epoch is a field since release 2.1."""
    epoch = [-1] if "leader_epoch" in kafka.structs.OffsetAndMetadata._fields else []
    return {
        kafka.TopicPartition(*partition): kafka.structs.OffsetAndMetadata(offset, "", *epoch)
        for partition, offset in offsets.items()
    }
