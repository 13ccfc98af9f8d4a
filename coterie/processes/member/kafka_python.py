"""A member with kafka-python, which does everything except heartbeats inside poll()."""

import importlib
from collections.abc import Iterable
from typing import Any

import kafka
from kafka.errors import KafkaError

from coterie.processes.member.application import ASSIGNOR_CLASSES, Application

# A poll that ends between JoinGroup and SyncGroup leaves kafka-python 3.0.12 silent for good, as
# docs/testing.md says. Long polls make that rare; orders and SIGTERM wait for the end of one.
# Polls return as soon as there are records, so a long one is no delay.
_POLL_MS = 1_000


class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Writes the callbacks; they may run in the thread of the library, and must not block."""

    def __init__(self, application: Application, consumer: Any) -> None:
        self._application = application
        self._consumer = consumer

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Stop. What was read is committed."""
        self._application.generation(membership_of(self._consumer)[0])
        self._application.revoked(revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        """Stop without a commit."""
        self._application.revoked(lost, "lost")

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Begin to read."""
        self._application.generation(membership_of(self._consumer)[0])
        self._application.assigned(assigned)


def run(application: Application) -> int:
    """Read until the member is asked to stop, and return the exit code."""
    consumer = made_consumer(application)
    options, listener = application.options, Listener(application, consumer)
    consumer.subscribe(topics=options.topic, listener=listener)
    # Fetch the metadata before the first join. Without this call the leader joins before it has the
    # partitions of the topics, and joins again when their metadata arrives. In this second round
    # kafka-python 3.0.12 can get stuck forever. The round is due to the changed metadata alone;
    # `rejoin_needed` is False. The leader accepts the metadata before it sends SyncGroup
    # (coordinator/consumer.py:473), so `need_rejoin` (:590) is False from then on. If a poll ends
    # before the response to SyncGroup arrives, the next poll therefore skips the loop in
    # coordinator/base.py:480 that waits for the response: the assignment is never taken over.
    consumer.topics()
    try:
        while not application.stopping.is_set():
            topics = application.subscription()
            if topics is not None:
                consumer.subscribe(topics=topics, listener=listener)
            try:
                poll(consumer, application)
            except KafkaError as error:
                # A retriable error, such as a refused connection to a broker that is being
                # restarted, is retried by the next poll.
                if not error.retriable:
                    return application.fatal(error)
                application.failed("error", error)
        application.write("ending")
    finally:
        consumer.close()
    return 0


def made_consumer(application: Application) -> kafka.KafkaConsumer:
    """Return the consumer."""
    options = application.options
    settings = application.settings(assignor(options.assignor))
    if options.reconnect_backoff_max_ms is not None:
        settings["reconnect_backoff_max_ms"] = options.reconnect_backoff_max_ms
    if options.auto_commit:
        settings["auto_commit_interval_ms"] = options.commit_interval_ms

        def committed(offsets: dict[Any, Any], response: Any) -> None:
            if isinstance(response, Exception):
                application.failed("commit-failed", response)
            else:
                application.committed(
                    {(key.topic, key.partition): value.offset for key, value in offsets.items()}
                )

        settings["default_offset_commit_callback"] = committed
    return kafka.KafkaConsumer(**settings)


def poll(consumer: kafka.KafkaConsumer, application: Application) -> None:
    """Poll once, take the records, work on them and commit them if it is time."""
    batches = consumer.poll(timeout_ms=_POLL_MS)
    application.take(
        (each.topic, each.partition, each.offset) for batch in batches.values() for each in batch
    )
    application.membership(*membership_of(consumer), consumer.assignment())
    application.work()
    if application.options.auto_commit or not application.commit_is_due():
        return
    offsets = dict(application.positions)
    try:
        if offsets:
            consumer.commit(to_commit(offsets))
        application.committed(offsets)
    except KafkaError as error:
        application.failed("commit-failed", error)
        # The partitions may have another owner, and the callback that says so may have come before
        # the records were taken.
        application.positions.clear()


def assignor(name: str) -> type:
    """Return the assignor class of a protocol name."""
    module = importlib.import_module(f"kafka.coordinator.assignors.{name.replace('-', '_')}")
    cls: type = getattr(module, ASSIGNOR_CLASSES[name])
    return cls


def membership_of(consumer: kafka.KafkaConsumer) -> tuple[int, str]:
    """Return the generation and the member id; before release 3 there is no public method."""
    if hasattr(consumer, "group_metadata"):
        metadata = consumer.group_metadata()
        return metadata.generation_id, metadata.member_id
    generation = consumer._coordinator._generation  # noqa: SLF001 - as above
    return generation.generation_id, generation.member_id


def to_commit(offsets: dict[tuple[str, int], int]) -> dict[Any, Any]:
    """Return the argument of `commit`; since release 2.1 it has leader epochs."""
    epoch = [-1] if "leader_epoch" in kafka.structs.OffsetAndMetadata._fields else []
    return {
        kafka.TopicPartition(*partition): kafka.structs.OffsetAndMetadata(offset, "", *epoch)
        for partition, offset in offsets.items()
    }
