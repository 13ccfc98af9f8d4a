"""A member with kafka-python, which does everything except heartbeats inside poll()."""

import argparse
import importlib
from collections.abc import Iterable
from typing import Any

import kafka
from kafka.errors import KafkaError

from tests.live.member.events import (
    ASSIGNOR_CLASSES,
    EXIT_FATAL,
    Events,
    Orders,
    Partition,
    consumer_settings,
)

# A poll that ends between JoinGroup and SyncGroup leaves kafka-python 3.0.12 silent for good, as
# docs/testing.md says. Long polls make that rare; orders and SIGTERM wait for the end of one.
LONG_POLL_S = 1.0


class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Reports the callbacks."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._events.partitions("assigned", assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._events.partitions("revoked", revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._events.partitions("lost", lost)


def run(options: argparse.Namespace, events: Events, orders: Orders) -> int:
    """Run a member until it is stopped, and return the exit code."""
    settings = consumer_settings(options, assignor(options.assignor))
    # The default of 30 s is too long to find a restarted broker within a test.
    consumer = kafka.KafkaConsumer(**settings, reconnect_backoff_max_ms=500)
    listener = Listener(events)
    consumer.subscribe(topics=options.topic, pattern=options.pattern, listener=listener)
    # Fetch the metadata before the first join. Without this call the leader joins before it has the
    # partitions of the topics, and joins again when their metadata arrives. In this second round
    # kafka-python 3.0.12 can get stuck forever. The round is due to the changed metadata alone;
    # `rejoin_needed` is False. The leader accepts the metadata before it sends SyncGroup
    # (coordinator/consumer.py:473), so `need_rejoin` (:590) is False from then on. If a poll ends
    # before the response to SyncGroup arrives, the next poll therefore skips the loop in
    # coordinator/base.py:480 that waits for the response: the assignment is never taken over.
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
                # A retriable error, such as a refused connection to a broker that is being
                # restarted, is retried by the next poll.
                if not error.retriable:
                    return EXIT_FATAL
    finally:
        consumer.close()
    return 0


def read_and_commit(
    consumer: kafka.KafkaConsumer, options: argparse.Namespace, events: Events
) -> None:
    """Poll once, report the records and commit them."""
    offsets = events.batch(consumer.poll(timeout_ms=int(LONG_POLL_S * 1000)).values())
    events.membership(*generation_and_member_id(consumer), consumer.assignment())
    if offsets and options.commit == "each":
        try:
            consumer.commit(to_commit(offsets))
            events.committed(offsets)
        except KafkaError as error:
            events.failed("commit-failed", error)


def assignor(name: str) -> type:
    """Return the assignor class of a protocol name."""
    module = importlib.import_module(f"kafka.coordinator.assignors.{name.replace('-', '_')}")
    cls: type = getattr(module, ASSIGNOR_CLASSES[name])
    return cls


def generation_and_member_id(consumer: kafka.KafkaConsumer) -> tuple[int, str]:
    """Return the generation and the member id; before release 3 there is no public method."""
    if hasattr(consumer, "group_metadata"):
        metadata = consumer.group_metadata()
        return metadata.generation_id, metadata.member_id
    generation = consumer._coordinator._generation
    return generation.generation_id, generation.member_id


def to_commit(offsets: dict[Partition, int]) -> dict[Any, Any]:
    """Return the argument of `commit`; since release 2.1 it has leader epochs."""
    epoch = [-1] if "leader_epoch" in kafka.structs.OffsetAndMetadata._fields else []
    return {
        kafka.TopicPartition(*partition): kafka.structs.OffsetAndMetadata(offset, "", *epoch)
        for partition, offset in offsets.items()
    }
