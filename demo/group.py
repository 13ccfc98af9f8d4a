"""The group of the demo: its members, and its state as the coordinator reports it."""

import contextlib
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import kafka
from kafka.errors import KafkaError

from demo.member_process import MemberProcess

LEAVE_LIMIT_S = 10.0

Record = tuple[int, int]
"""Partition and offset."""


class Member(MemberProcess):
    """A member process and what it has reported.

    Attributes:
        name: its name, which is also its client id.
        read: how often it has read each record.
        generation: its newest generation; -1 before the first.
        status: joining, member, left or killed.
    """

    def __init__(
        self,
        library: str,
        name: str,
        options: Mapping[str, object],
        report: Callable[[str, str], None],
    ) -> None:
        """Start the process.

        Args:
            library: its client library.
            name: its name.
            options: the other options of demo/member.py.
            report: called with the name and a text when its partitions change.
        """
        self.name = name
        self.read: Counter[Record] = Counter()
        self.generation = -1
        self.status = "joining"
        self._report = report
        super().__init__("demo.member", library, {"name": name, **options})

    @property
    def alive(self) -> bool:
        """Whether its process is running and has not been ordered to end."""
        return self.status in ("joining", "member") and self.process.poll() is None

    def handle(self, event: dict[str, Any]) -> None:
        """Record an event that the process has printed."""
        kind = event["event"]
        if kind == "read":
            self.read.update((event["partition"], offset) for offset in event["offsets"])
        elif kind == "generation":
            self.generation = event["number"]
        elif kind in ("assigned", "revoked") and event["partitions"]:
            if self.status == "joining":
                self.status = "member"
            verb = "gets" if kind == "assigned" else "gives up"
            self._report(self.name, f"{verb} {' '.join(map(str, event['partitions']))}")

    def leave(self) -> None:
        """Send SIGTERM: it leaves the group and ends."""
        self.status = "left"
        self.process.terminate()

    def kill(self) -> None:
        """Send SIGKILL: the coordinator notices it when the session expires."""
        self.status = "killed"
        self.process.kill()

    def stop(self) -> None:
        """Let it leave the group if it is still running, and close its pipes."""
        if self.process.poll() is None:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(LEAVE_LIMIT_S)
        self.close()


@dataclass
class GroupState:
    """The state of the group at one moment.

    Attributes:
        state: its name; "-" before the first member joins.
        owners: the name of the member that owns each partition.
        members: the names of the members.
        committed: the committed offset of each partition.
    """

    state: str = "-"
    owners: dict[int, str] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    committed: dict[int, int] = field(default_factory=dict)


class Coordinator:
    """Asks the coordinator about the group, with kafka-python's admin client."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._group = group
        self._admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic and wait until it is usable."""
        new_topic = {topic: {"num_partitions": partitions, "replication_factor": 1}}
        self._admin.create_topics(new_topic, wait_for_metadata=True)

    def group_state(self, last: GroupState) -> GroupState:
        """Return the state of the group now, or the last one if there is no response."""
        try:
            described = self._admin.describe_groups([self._group])[self._group]
            offsets = self._admin.list_group_offsets(self._group)[self._group]
        except KafkaError:
            return last
        # A group without a first member is described as Dead.
        is_new = described["group_state"] == "Dead" and last.state == "-"
        now = GroupState(state="-" if is_new else described["group_state"])
        for member in described["members"]:
            now.members.add(member["client_id"])
            assignment = member["member_assignment"]
            for topic in assignment["assigned_partitions"] if assignment else ():
                now.owners |= dict.fromkeys(topic["partitions"], member["client_id"])
        now.committed = {at.partition: found.offset for at, found in offsets.items()}
        return now

    def close(self) -> None:
        """Close the client."""
        self._admin.close()
