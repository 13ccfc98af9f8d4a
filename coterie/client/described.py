"""A described group and its members, the same for every group type."""

from typing import NamedTuple

from coterie.client.nodes import Node


class Member(NamedTuple):
    """A member of a group.

    `assignment` maps topics to their partitions; None when the bytes are not those of a consumer.
    The epochs and the target are those of KIP-848 and None in classic groups. `topics` is what it
    subscribes to; None where the group does not say so: it rebalances, or is no consumer's.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: dict[str, list[int]] | None
    member_epoch: int | None = None
    target_assignment: dict[str, list[int]] | None = None
    topics: list[str] | None = None

    @property
    def partition_count(self) -> int:
        """Partitions assigned to it."""
        return sum(len(partitions) for partitions in (self.assignment or {}).values())


class GroupDescription(NamedTuple):
    """A group, or (`exists` False) that there is none of this name.

    `protocol` is the chosen assignment strategy, empty while there is none. The epochs are None in
    classic groups.
    """

    group_id: str
    exists: bool
    type: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: Node
    members: list[Member]
    group_epoch: int | None = None
    assignment_epoch: int | None = None
