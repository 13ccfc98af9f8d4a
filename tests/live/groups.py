"""What the broker says about a group, asked with the admin clients."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from tests.live.deadlines import GENEROUS_S, eventually
from tests.live.libraries.kafka_python import kafka

ADMIN_LIMIT_S = 30.0
# librdkafka's log level for clients inside the tests: a server that is gone is no news here.
QUIET = 2

Partition = tuple[str, int]


# A broker that has just started may still be loading its groups; every client then asks again.
STILL_STARTING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def answered(ask: Callable[[], Future[Any]]) -> Any:
    """The answer to an admin question, asked again while the coordinator is still starting."""
    deadline = time.monotonic() + GENEROUS_S
    while True:
        try:
            return ask().result(ADMIN_LIMIT_S)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() not in STILL_STARTING or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class GroupView:
    """One group as its coordinator sees it."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self._admin = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                "log_level": QUIET,
                "reconnect.backoff.max.ms": 500,
            }
        )

    def describe(self) -> confluent_kafka.admin.ConsumerGroupDescription:
        """The full description; raises what the broker answers for the group."""
        return answered(lambda: self._admin.describe_consumer_groups([self.group])[self.group])

    def state(self) -> str:
        """The state by its Kafka name, spelled as librdkafka's enumeration spells it."""
        return self.describe().state.name

    def member_ids(self) -> set[str]:
        """The ids of the members."""
        return {member.member_id for member in self.describe().members}

    def instances(self) -> dict[str, str]:
        """group.instance.id -> member id, of the static members."""
        members = self.describe().members
        return {
            each.group_instance_id: each.member_id for each in members if each.group_instance_id
        }

    def owned(self) -> dict[str, set[Partition]]:
        """Member id -> the partitions of its assignment."""
        return {
            member.member_id: {
                (each.topic, each.partition) for each in member.assignment.topic_partitions
            }
            for member in self.describe().members
        }

    def offsets(self) -> dict[Partition, int]:
        """Every committed offset of the group, asked with kafka-python.

        librdkafka 2.16 cannot be used here: its admin client crashes the whole process when the
        coordinator answers that it is still loading.
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
            counted = members is None or len(description.members) == members
            return counted and description.state.name == state

        eventually(
            reached,
            f"{self.group} {state} with {members} members",
            told=lambda: (self.state(), self.owned()),
        )


def produce_rows(
    bootstrap: str, topic: str, partitions: int, rows: int
) -> set[tuple[str, int, int]]:
    """Produce numbered records round robin; returns (topic, partition, offset) of each."""
    stored: set[tuple[str, int, int]] = set()

    def delivered(
        error: confluent_kafka.KafkaError | None, record: confluent_kafka.Message
    ) -> None:
        assert error is None, error
        stored.add((record.topic(), record.partition(), record.offset()))

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": QUIET}
    )
    for row in range(rows):
        producer.produce(topic, b"%d" % row, partition=row % partitions, on_delivery=delivered)
    assert producer.flush(ADMIN_LIMIT_S) == 0
    assert len(stored) == rows
    return stored
