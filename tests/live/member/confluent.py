"""A member of confluent-kafka: callbacks run inside poll()."""

import argparse
import sys

import confluent_kafka

from tests.live.member.events import BATCH, EXIT_FATAL, POLL_S, Events, Orders, Partition


class Member:
    """The consumer and what it has read but not yet committed."""

    def __init__(self, options: argparse.Namespace, events: Events) -> None:
        self._events = events
        self._commits = options.commit == "each"
        self._dirty: dict[Partition, int] = {}
        self._uncommitted = 0
        static = {} if options.instance is None else {"group.instance.id": options.instance}
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": options.bootstrap,
                "client.id": options.client_id,
                "group.id": options.group,
                "session.timeout.ms": options.session_timeout_ms,
                "heartbeat.interval.ms": options.heartbeat_interval_ms,
                "max.poll.interval.ms": options.max_poll_interval_ms,
                "topic.metadata.refresh.interval.ms": options.metadata_max_age_ms,
                "partition.assignment.strategy": options.assignor,
                "auto.offset.reset": options.auto_offset_reset,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                # Kept short so that a restarted broker is found again soon; the default is 10 s.
                "reconnect.backoff.max.ms": 500,
                **static,
            }
        )

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe, with callbacks that tell."""
        tell = self._events.partitions
        self.consumer.subscribe(
            topics,
            on_assign=lambda _consumer, partitions: tell("assigned", partitions),
            on_revoke=self._revoked,
            on_lost=lambda _consumer, partitions: tell("lost", partitions),
        )

    def _revoked(self, _consumer: object, partitions: object) -> None:
        self.commit()
        self._events.partitions("revoked", partitions)

    def poll(self) -> bool:
        """One poll; False after a fatal error."""
        record = self.consumer.poll(POLL_S)
        if record is not None and record.error() is not None:
            return self._tell_error(record.error())
        if record is not None:
            partition, offset = (record.topic(), record.partition()), record.offset()
            self._events.record(*partition, offset, record.value())
            self._dirty[partition] = offset + 1
            self._uncommitted += 1
        if record is None or self._uncommitted >= BATCH:
            self.commit()
        generation = generation_of(self.consumer.consumer_group_metadata())
        member_id = self.consumer.memberid() or ""
        self._events.membership(generation, member_id, self.consumer.assignment())
        return True

    def _tell_error(self, error: confluent_kafka.KafkaError) -> bool:
        fatal = error.code() == confluent_kafka.KafkaError._FATAL
        # A fatal error carries its cause in its text only.
        fenced = fatal and "Static consumer fenced" in error.str()
        code = "FENCED_INSTANCE_ID" if fenced else error.name()
        self._events.tell("error", code=code, text=error.str())
        return not fatal

    def commit(self) -> None:
        """Commit what was read, and tell."""
        dirty, self._dirty, self._uncommitted = self._dirty, {}, 0
        if not dirty or not self._commits:
            return
        offsets = [confluent_kafka.TopicPartition(*each, dirty[each]) for each in dirty]
        try:
            self.consumer.commit(offsets=offsets, asynchronous=False)
            self._events.committed(dirty)
        except confluent_kafka.KafkaException as error:
            self._events.tell("commit-failed", code=error.args[0].name(), text=str(error))


def run(options: argparse.Namespace, events: Events, orders: Orders) -> int:
    """Be a member until told to stop; returns the exit code."""
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


def generation_of(metadata: bytes) -> int:
    """The generation in librdkafka's serialised group metadata: magic "CGMDv2:", then an int32."""
    magic = b"CGMDv2:"
    assert metadata.startswith(magic), metadata
    return int.from_bytes(metadata[len(magic) : len(magic) + 4], sys.byteorder, signed=True)
