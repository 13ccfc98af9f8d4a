"""A member with confluent-kafka (librdkafka), whose callbacks run inside consume."""

import sys
from collections.abc import Iterator
from typing import Any

import confluent_kafka

from coterie.processes.member.application import EXIT_FATAL, POLL_S, Application
from coterie.processes.member.login import Login
from coterie.processes.member.poison import RETRY_S

_METADATA_MAGIC = b"CGMDv2:"


def settings(application: Application) -> dict[str, Any]:
    """Return the configuration of the consumer."""
    options = application.options
    made: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "client.id": options.client_id,
        "group.id": options.group,
        "group.instance.id": options.instance,
        "max.poll.interval.ms": options.max_poll_interval_ms,
        "topic.metadata.refresh.interval.ms": options.metadata_max_age_ms,
        "reconnect.backoff.max.ms": options.reconnect_backoff_max_ms,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
    }
    if options.group_protocol == "consumer":
        # Session and heartbeat interval of KIP-848 are settings of the broker.
        made["group.protocol"] = "consumer"
    else:
        made["partition.assignment.strategy"] = options.assignor
        made["session.timeout.ms"] = options.session_timeout_ms
        made["heartbeat.interval.ms"] = options.heartbeat_interval_ms
    if options.command_config is not None:
        made |= Login(options.command_config).of_librdkafka()
    return {name: value for name, value in made.items() if value is not None}


class Member:
    """The consumer, and its callbacks."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self.consumer = confluent_kafka.Consumer(settings(application))

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe with callbacks that write."""
        self.consumer.subscribe(
            topics,
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=lambda _, partitions: self._application.revoked(partitions, "lost"),
        )

    def _assigned(self, _: object, partitions: list[Any]) -> None:
        self._application.generation(self.generation())
        self._application.assigned(partitions)

    def _revoked(self, _: object, partitions: list[Any]) -> None:
        self.commit()
        self._application.generation(self.generation())
        self._application.revoked(partitions)

    def poll(self) -> bool:
        """Read, work and commit as it is due; return False after a fatal error."""
        application = self._application
        records = self.consumer.consume(application.options.max_poll_records, POLL_S)
        errors = [error for record in records if (error := record.error()) is not None]
        kept, stands = application.poison.before(places_of(records))
        application.take(kept)
        if stands is not None:
            self._try_again(stands)
        member_id = self.consumer.memberid() or ""
        application.membership(self.generation(), member_id, self.consumer.assignment())
        application.work()
        if application.commit_is_due():
            self.commit()
        return not [error for error in errors if self._is_fatal(error)]

    def _try_again(self, partition: tuple[str, int]) -> None:
        """Go back to the record that fails, a little later."""
        application, place = self._application, self._application.poison.place
        assert place is not None, "it fails"
        application.write("stuck", partitions=[partition])
        self.consumer.seek(confluent_kafka.TopicPartition(*place))
        application.stopping.wait(RETRY_S)

    def _is_fatal(self, error: confluent_kafka.KafkaError) -> bool:
        """Write an error, and return whether it ends the member."""
        is_fatal = error.code() == confluent_kafka.KafkaError._FATAL  # noqa: SLF001 - its public name
        # The cause of a fatal error is only in its text.
        is_fenced = is_fatal and "Static consumer fenced" in error.str()
        code = "FENCED_INSTANCE_ID" if is_fenced else error.name()
        self._application.write("error", code=code, text=error.str())
        return is_fatal

    def generation(self) -> int:
        """Return the generation, or the member epoch of KIP-848; -1 outside of a group."""
        metadata: Any = self.consumer.consumer_group_metadata()
        if not isinstance(metadata, bytes) or not metadata.startswith(_METADATA_MAGIC):
            return -1
        number = metadata[len(_METADATA_MAGIC) : len(_METADATA_MAGIC) + 4]
        return int.from_bytes(number, sys.byteorder, signed=True)

    def commit(self) -> None:
        """Commit what was read."""
        offsets = dict(self._application.positions)
        listed = [confluent_kafka.TopicPartition(*each, offset) for each, offset in offsets.items()]
        try:
            if listed:
                self.consumer.commit(offsets=listed, asynchronous=False)
            self._application.committed(offsets)
        except confluent_kafka.KafkaException as error:
            self._application.write("commit-failed", code=error.args[0].name(), text=str(error))


def places_of(records: list[confluent_kafka.Message]) -> Iterator[tuple[str, int, int]]:
    """Yield topic, partition and offset of each record."""
    for record in records:
        if record.error() is None:
            yield str(record.topic()), int(record.partition() or 0), int(record.offset() or 0)


def run(application: Application) -> int:
    """Read until the member is asked to stop, and return the exit code."""
    member = Member(application)
    member.subscribe(application.options.topic)
    try:
        while not application.stopping.is_set():
            topics = application.subscription()
            if topics is not None:
                member.subscribe(topics)
            if not member.poll():
                return EXIT_FATAL
        application.write("ending")
        member.commit()
    finally:
        member.consumer.close()
    return 0
