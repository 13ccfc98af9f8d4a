"""A member with kafka-python, which commits by itself."""

from collections.abc import Iterable
from typing import Any

import kafka
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from coterie.lab.live.members.application import Application

# A poll that ends while SyncGroup is answered loses the assignment (kafka-python 3.0.12), and the
# group rebalances once more. Polls return as soon as there are records, so a long one is no delay.
_POLL_MS = 1_000


class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Says what the callbacks say; they run in the thread of the library, and must not block."""

    def __init__(self, application: Application, consumer: Any) -> None:
        self._application = application
        self._consumer = consumer

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Stop. The library has committed before."""
        self._application.generation(self._consumer.group_metadata().generation_id)
        self._application.revoked(revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        """Stop without a commit."""
        self._application.revoked(lost, "lost")

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Begin to read."""
        self._application.generation(self._consumer.group_metadata().generation_id)
        self._application.assigned(assigned)


def run(application: Application) -> None:
    """Read until the member is asked to stop."""
    options = application.options
    cooperative = options.machine == "cooperative"

    def committed(offsets: dict[Any, Any], response: Any) -> None:
        if isinstance(response, Exception):
            application.failed(response)
        else:
            application.committed(
                {(key.topic, key.partition): value.offset for key, value in offsets.items()}
            )

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        client_id=options.client_id,
        group_instance_id=options.instance,
        session_timeout_ms=options.session_ms,
        metadata_max_age_ms=options.metadata_age_ms,
        heartbeat_interval_ms=options.heartbeat_ms,
        max_poll_interval_ms=options.rebalance_ms,
        partition_assignment_strategy=[
            CooperativeStickyAssignor if cooperative else RangePartitionAssignor
        ],
        auto_offset_reset="earliest",
        enable_auto_commit=True,
        auto_commit_interval_ms=options.commit_ms,
        default_offset_commit_callback=committed,
        fetch_max_wait_ms=100,
    )
    consumer.subscribe(topics=options.topics, listener=Listener(application, consumer))
    # The metadata has to be there before the first join; kafka-python 3.0.12 may hang otherwise.
    consumer.topics()
    while not application.stopping.is_set():
        try:
            batches = consumer.poll(timeout_ms=_POLL_MS)
            application.generation(consumer.group_metadata().generation_id)
            application.take(
                (each.topic, each.partition, records[0].offset, records[-1].offset)
                for each, records in batches.items()
            )
            application.work()
        except KafkaError as error:
            application.failed(error)
            if not error.retriable:
                raise
    application.ending()
    consumer.close()


if __name__ == "__main__":
    run(Application())
