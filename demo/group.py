"""The group of the demo: its members, and its state as the coordinator reports it."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from signal import SIGTERM

import kafka
from kafka.errors import KafkaError

from coterie.processes import ProcessFailed
from coterie.processes.member_process import MemberProcess

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

    def __init__(self, library: str, name: str, options: Mapping[str, object]) -> None:
        """Start the process.

        Args:
            library: its client library.
            name: its name.
            options: its other options.
        """
        super().__init__(library, {"client_id": name, **options})
        self.name = name
        self.read: Counter[Record] = Counter()
        self.generation = -1
        self.status = "joining"

    @property
    def alive(self) -> bool:
        """Whether its process is running and has not been ordered to end."""
        return self.status in ("joining", "member") and self.running

    def update(self) -> Iterator[str]:
        """Take up what it has written; yield what happened to its partitions."""
        for line in self.new_lines():
            if line.event == "delivered":
                for _, partition, first, last in line.fields["batches"]:
                    self.read.update((partition, offset) for offset in range(first, last + 1))
            elif line.event == "generation":
                self.generation = line.fields["generation"]
            elif line.event in ("assigned", "revoked") and line.partitions:
                if self.status == "joining":
                    self.status = "member"
                verb = "gets" if line.event == "assigned" else "gives up"
                yield f"{verb} {' '.join(str(number) for _, number in line.partitions)}"

    def leave(self) -> None:
        """Send SIGTERM: it leaves the group and ends."""
        self.status = "left"
        self.signal(SIGTERM)

    def die(self) -> None:
        """Send SIGKILL: the coordinator notices it when the session expires."""
        self.status = "killed"
        self.kill()

    def stop(self) -> None:
        """Let it leave the group if it is still running, and remove its files."""
        with contextlib.suppress(ProcessFailed):
            self.end(limit_s=LEAVE_LIMIT_S)
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
