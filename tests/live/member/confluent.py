"""A member with confluent-kafka, whose callbacks run inside poll()."""

import argparse
import sys
from collections.abc import Iterable
from typing import Any

import confluent_kafka

from tests.live.member.events import BATCH_RECORDS, EXIT_FATAL, POLL_S, Events, Orders, Partition


class Member:
    """The consumer, and the records that it has read but not committed."""

    def __init__(self, options: argparse.Namespace, events: Events) -> None:
        self._events = events
        self._commits = options.commit == "each"
        self._uncommitted: dict[Partition, int] = {}
        self._uncommitted_records = 0
        static = {} if options.instance is None else {"group.instance.id": options.instance}
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": options.bootstrap,
                "client.id": options.client_id,
                "group.id": options.group,
                "max.poll.interval.ms": options.max_poll_interval_ms,
                "topic.metadata.refresh.interval.ms": options.metadata_max_age_ms,
                "auto.offset.reset": options.auto_offset_reset,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                # The default of 10 s is too long to find a restarted broker within a test.
                "reconnect.backoff.max.ms": 500,
                **static,
                **_protocol_settings(options),
            }
        )

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe with callbacks that report."""
        report = self._events.partitions
        self.consumer.subscribe(
            topics,
            on_assign=lambda _consumer, partitions: report("assigned", partitions),
            on_revoke=self._revoked,
            on_lost=self._lost,
        )

    def _revoked(self, _consumer: object, partitions: Iterable[Any]) -> None:
        self.commit()
        self._events.partitions("revoked", partitions)

    def _lost(self, _consumer: object, partitions: Iterable[Any]) -> None:
        # Others have these partitions already.
        self._uncommitted, self._uncommitted_records = {}, 0
        self._events.partitions("lost", partitions)

    def poll(self) -> bool:
        """Poll once; return False after a fatal error."""
        record = self.consumer.poll(POLL_S)
        if record is not None:
            error = record.error()
            if error is not None:
                return self._report_error(error)
            self._handle(record)
        if record is None or self._uncommitted_records >= BATCH_RECORDS:
            self.commit()
        generation = generation_of(self.consumer.consumer_group_metadata())
        member_id = self.consumer.memberid() or ""
        self._events.membership(generation, member_id, self.consumer.assignment())
        return True

    def _handle(self, record: confluent_kafka.Message) -> None:
        topic, partition, offset = record.topic(), record.partition(), record.offset()
        value: Any = record.value()
        assert topic is not None, "only an error has no topic"
        assert partition is not None, "only an error has no partition"
        assert offset is not None, "only an error has no offset"
        self._events.record(topic, partition, offset, value)
        self._uncommitted[topic, partition] = offset + 1
        self._uncommitted_records += 1

    def _report_error(self, error: confluent_kafka.KafkaError) -> bool:
        is_fatal = error.code() == confluent_kafka.KafkaError._FATAL
        # The cause of a fatal error is only in its text.
        is_fenced = is_fatal and "Static consumer fenced" in error.str()
        code = "FENCED_INSTANCE_ID" if is_fenced else error.name()
        self._events.report("error", code=code, text=error.str())
        return not is_fatal

    def commit(self) -> None:
        """Commit what was read, and report it."""
        uncommitted, self._uncommitted, self._uncommitted_records = self._uncommitted, {}, 0
        if not uncommitted or not self._commits:
            return
        offsets = [confluent_kafka.TopicPartition(*each, uncommitted[each]) for each in uncommitted]
        try:
            self.consumer.commit(offsets=offsets, asynchronous=False)
            self._events.committed(uncommitted)
        except confluent_kafka.KafkaException as error:
            self._events.report("commit-failed", code=error.args[0].name(), text=str(error))


def _protocol_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return what only one of the two protocols has: in the other the broker decides it."""
    if options.group_protocol == "consumer":
        return {"group.protocol": "consumer"}
    return {
        "session.timeout.ms": options.session_timeout_ms,
        "heartbeat.interval.ms": options.heartbeat_interval_ms,
        "partition.assignment.strategy": options.assignor,
    }


def run(options: argparse.Namespace, events: Events, orders: Orders) -> int:
    """Run a member until it is stopped, and return the exit code."""
    member = Member(options, events)
    member.subscribe(options.topic or [options.pattern])
    try:
        while not orders.stopped.is_set():
            topics = orders.subscription()
            if topics is not None:
                member.subscribe(topics)
            if not member.poll():
                return EXIT_FATAL
        member.commit()
    finally:
        member.consumer.close()
    return 0


def generation_of(metadata: Any) -> int:
    """Return the generation in librdkafka's group metadata: magic "CGMDv2:", then an int32."""
    magic = b"CGMDv2:"
    assert isinstance(metadata, bytes), "librdkafka serialises it"
    assert metadata.startswith(magic), metadata
    return int.from_bytes(metadata[len(magic) : len(magic) + 4], sys.byteorder, signed=True)
