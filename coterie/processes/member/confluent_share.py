"""A member of a share group with confluent-kafka (librdkafka), which acknowledges each record.

librdkafka does not say which partitions a share consumer has.
"""

from collections.abc import Iterable
from typing import Any

import confluent_kafka
from confluent_kafka import AcknowledgeType, ShareConsumer

from coterie.processes.member.application import POLL_S, Application, ranges_of
from coterie.processes.member.confluent import places_of
from coterie.processes.member.login import Login


def settings(application: Application) -> dict[str, Any]:
    """Return the configuration of the consumer; sessions are settings of the broker."""
    options = application.options
    made: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "client.id": options.client_id,
        "group.id": options.group,
        "topic.metadata.refresh.interval.ms": options.metadata_max_age_ms,
        "reconnect.backoff.max.ms": options.reconnect_backoff_max_ms,
        "share.acknowledgement.mode": "explicit",
    }
    if options.command_config is not None:
        made |= Login(options.command_config).of_librdkafka()
    return {name: value for name, value in made.items() if value is not None}


class Member:
    """The share consumer, and what it does with records."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self.consumer = ShareConsumer(settings(application))

    def poll(self) -> None:
        """Get records, work on them, and accept those that can be processed."""
        application = self._application
        messages = list(self.consumer.poll(POLL_S))
        records = [each for each in messages if each.error() is None]
        for each in messages:
            if (error := each.error()) is not None:
                application.write("error", code=error.name(), text=error.str())
        if not records:
            return
        application.write("delivered", batches=ranges_of(places_of(records)))
        application.work()
        try:
            self._acknowledge(records)
            self.consumer.commit_sync()
        except confluent_kafka.KafkaException as error:
            # They are delivered again when their locks expire.
            application.write("commit-failed", code=error.args[0].name(), text=str(error))

    def _acknowledge(self, records: Iterable[confluent_kafka.Message]) -> None:
        for record in records:
            (place,) = places_of([record])
            fails = self._application.poison.is_at(place)
            decision = AcknowledgeType.RELEASE if fails else AcknowledgeType.ACCEPT
            self.consumer.acknowledge(record, decision)


def run(application: Application) -> int:
    """Read until the member is asked to stop, and return the exit code."""
    member = Member(application)
    member.consumer.subscribe(application.options.topic)
    try:
        while not application.stopping.is_set():
            member.poll()
        application.write("ending")
    finally:
        member.consumer.close()
    return 0
