"""Who takes part: the members (processes), the producer (a thread), and the coordinator's view."""

import contextlib
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
import kafka
from kafka.errors import KafkaError

from demo.member_process import MemberProcess

FLUSH_LIMIT_S = 20.0
LEAVE_LIMIT_S = 10.0

Record = tuple[int, int]
"""Partition and offset."""


class Member(MemberProcess):
    """A member process and what it has told so far."""

    def __init__(
        self, library: str, name: str, options: dict[str, str], heard: Callable[[str, str], None]
    ) -> None:
        self.name = name
        self.read: Counter[Record] = Counter()
        self.generation = -1
        self.status = "joining"
        self._heard = heard
        super().__init__("demo.member", library, {"name": name, **options})

    @property
    def alive(self) -> bool:
        """Whether its process still runs and nobody has asked it to go."""
        return self.status in ("joining", "member") and self.process.poll() is None

    def handle(self, event: dict[str, Any]) -> None:
        """Take over what the member reports."""
        kind = event["event"]
        if kind == "read":
            self.read.update((event["partition"], offset) for offset in event["offsets"])
        elif kind == "generation":
            self.generation = event["number"]
        elif kind in ("assigned", "revoked") and event["partitions"]:
            if self.status == "joining":
                self.status = "member"
            verb = "gets" if kind == "assigned" else "gives back"
            self._heard(self.name, f"{verb} {' '.join(map(str, event['partitions']))}")

    def leave(self) -> None:
        """Ask it to go (SIGTERM): it leaves the group before it ends."""
        self.status = "left"
        self.process.terminate()

    def kill(self) -> None:
        """SIGKILL: the coordinator has to find out by itself."""
        self.status = "killed"
        self.process.kill()

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        return "\n".join(self.last_errors())

    def put_away(self) -> None:
        """Let it leave the group if it still runs, and close what connects us."""
        if self.process.poll() is None:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(LEAVE_LIMIT_S)
        self.close()


class Producer:
    """Produces numbered records at an even pace, round robin over the partitions."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_second: float) -> None:
        self.stored: set[Record] = set()
        self.failures: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._pause_s = 1 / per_second
        self._stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 2}
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(self._pause_s):
            self._producer.produce(
                self._topic,
                value=b"%d" % number,
                partition=number % self._partitions,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)
            number += 1

    def _delivered(
        self, error: confluent_kafka.KafkaError | None, record: confluent_kafka.Message
    ) -> None:
        partition, offset = record.partition(), record.offset()
        if error is not None:
            self.failures.append(error.str())
        elif partition is not None and offset is not None:
            self.stored.add((partition, offset))

    def ends(self) -> dict[int, int]:
        """The end offset of each partition, as far as the broker has acknowledged."""
        self._producer.poll(0)
        return dict(Counter(partition for partition, _offset in list(self.stored)))

    def stop(self) -> None:
        """Stop, and wait until the broker has answered for everything."""
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_LIMIT_S)
        if left:
            self.failures.append(f"{left} records were never answered")

    def abandon(self) -> None:
        """Stop at once; what is unanswered stays so."""
        self._stopping.set()
        self._thread.join()
        self._producer.purge()


@dataclass
class Standing:
    """The group as its coordinator tells it, at one moment."""

    state: str = "-"
    owners: dict[int, str] = field(default_factory=dict)
    """Partition -> name of the member."""
    members: set[str] = field(default_factory=set)
    committed: dict[int, int] = field(default_factory=dict)

    def of_state(self, state: str) -> "Standing":
        """An empty standing of that state; a group nobody has joined yet is described as Dead."""
        unborn = state == "Dead" and self.state == "-"
        return Standing(state="-" if unborn else state)


class Coordinator:
    """Asks the broker about the group, with kafka-python's admin client."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._group = group
        self._admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create the topic and wait until it can be used."""
        order = {topic: {"num_partitions": partitions, "replication_factor": 1}}
        self._admin.create_topics(order, wait_for_metadata=True)

    def standing(self, before: Standing) -> Standing:
        """How things are now; how they were, should the coordinator not answer just now."""
        try:
            described = self._admin.describe_groups([self._group])[self._group]
            offsets = self._admin.list_group_offsets(self._group)[self._group]
        except KafkaError:
            return before
        now = before.of_state(described["group_state"])
        for member in described["members"]:
            now.members.add(member["client_id"])
            assignment = member["member_assignment"]
            for topic in assignment["assigned_partitions"] if assignment else ():
                now.owners |= dict.fromkeys(topic["partitions"], member["client_id"])
        now.committed = {at.partition: found.offset for at, found in offsets.items()}
        return now

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()
