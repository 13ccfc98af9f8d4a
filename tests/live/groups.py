"""What the coordinator reports about a group, read with the admin clients; and records to read."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

import confluent_kafka
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from demo.producer import QUIET_LOG_LEVEL, SteadyProducer
from tests.live.deadlines import GENEROUS_S, eventually
from tests.live.libraries.kafka_python import kafka

T = TypeVar("T")

ADMIN_LIMIT_S = 30.0

Partition = tuple[str, int]
StoredRecord = tuple[str, int, int]
"""Topic, partition and offset."""

# A broker that has just started may still be loading its groups; clients then retry.
STILL_STARTING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def retried_while_starting(request: Callable[[], "Future[T]"]) -> T:
    """Return the result of an admin request, retried while the coordinator is starting."""
    deadline = time.monotonic() + GENEROUS_S
    while True:
        try:
            return request().result(ADMIN_LIMIT_S)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() not in STILL_STARTING or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class GroupView:
    """A group as its coordinator describes it."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self._admin = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                "log_level": QUIET_LOG_LEVEL,
                "reconnect.backoff.max.ms": 500,
                # If its only broker restarts, librdkafka 2.16 bootstraps again and drops the
                # broker it knew. A request that waits for that broker then never leaves.
                "metadata.recovery.strategy": "none",
            }
        )

    def describe(self) -> ConsumerGroupDescription:
        """Return the description of the group."""
        description: ConsumerGroupDescription = retried_while_starting(
            lambda: self._admin.describe_consumer_groups([self.group])[self.group]
        )
        return description

    def state(self) -> str:
        """Return the state, as librdkafka's enumeration spells it."""
        return str(self.describe().state.name)

    def member_ids(self) -> set[str]:
        """Return the member ids."""
        return {member.member_id for member in self.describe().members}

    def instances(self) -> dict[str, str]:
        """Return the member ids of the static members by group instance id."""
        members = self.describe().members
        return {
            each.group_instance_id: each.member_id for each in members if each.group_instance_id
        }

    def owned(self) -> dict[str, set[Partition]]:
        """Return the assigned partitions by member id."""
        return {
            member.member_id: {
                (each.topic, each.partition) for each in member.assignment.topic_partitions
            }
            for member in self.describe().members
        }

    def offsets(self) -> dict[Partition, int]:
        """Return the committed offsets of the group, read with kafka-python.

        librdkafka 2.16 can't be used here: its admin client crashes the process if the coordinator
        responds that it is still loading.
        """
        deadline = time.monotonic() + GENEROUS_S
        admin = kafka.KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            while True:
                try:
                    found = admin.list_group_offsets(self.group)[self.group]
                    return {(at.topic, at.partition): found[at].offset for at in found}
                except kafka.errors.KafkaError as error:
                    if not error.retriable or time.monotonic() > deadline:
                        raise
                time.sleep(0.05)
        finally:
            admin.close()

    def wait_state(self, state: str, members: int | None = None) -> None:
        """Wait for a state and, if given, for a number of members."""

        def reached() -> bool:
            description = self.describe()
            has_members = members is None or len(description.members) == members
            return has_members and description.state.name == state

        eventually(
            reached,
            f"{self.group} {state} with {members} members",
            evidence=lambda: (self.state(), self.owned()),
        )


def produce_rows(bootstrap: str, topic: str, partitions: int, rows: int) -> set[StoredRecord]:
    """Produce numbered records, round robin over the partitions, and return where they are."""
    stored: set[StoredRecord] = set()

    def delivered(
        error: confluent_kafka.KafkaError | None, record: confluent_kafka.Message
    ) -> None:
        assert error is None, error
        partition, offset = record.partition(), record.offset()
        assert partition is not None, "a stored record has a partition"
        assert offset is not None, "a stored record has an offset"
        stored.add((topic, partition, offset))

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": QUIET_LOG_LEVEL}
    )
    for row in range(rows):
        producer.produce(topic, b"%d" % row, partition=row % partitions, on_delivery=delivered)
    assert producer.flush(ADMIN_LIMIT_S) == 0
    assert len(stored) == rows
    return stored


class Producing:
    """A producer that keeps writing while a test does something to the group that reads."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_second: float) -> None:
        self.topic = topic
        self._producer = SteadyProducer(bootstrap, topic, partitions, per_second)

    def stop(self) -> set[StoredRecord]:
        """Stop, wait for all responses, and return where the records are."""
        self._producer.stop()
        assert not self._producer.failures, self._producer.failures[:3]
        return {(self.topic, partition, offset) for partition, offset in self._producer.stored}

    def abandon(self) -> None:
        """Stop without waiting."""
        self._producer.abandon()


@contextmanager
def producing(
    bootstrap: str, topic: str, partitions: int, per_second: float = 200
) -> Iterator[Producing]:
    """Produce during a `with` block; the producer is stopped at its end at the latest."""
    producer = Producing(bootstrap, topic, partitions, per_second)
    try:
        yield producer
    finally:
        producer.abandon()
