"""What the history of a group is made of.

Units: `_ms` with `started`, `completed`, `from`, `to`, `at` or `seen` in front is epoch
milliseconds; every other `_ms` is a duration. What is not known is None, never 0: the log of a real
Kafka tells when a rebalance was completed and not when it began.

A member's key is what it goes by over restarts: its instance id, else its member id. Comparing
member ids would report moves where a static member merely came back.
"""

from enum import StrEnum
from typing import NamedTuple

from coterie.assignors import TopicPartition


class Evidence(StrEnum):
    """Where what is said of a rebalance comes from."""

    JOURNAL = "journal"  # the coordinator wrote down what happened
    LOG = "log"  # follows from the generations in __consumer_offsets
    INFERRED = "inferred"  # the generations allow it, but do not prove it


class Member(NamedTuple):
    """A member of a generation.

    Attributes:
        member_id, instance_id, client_id, client_host: who it is.
        topics: what it subscribes to; None where its metadata is not a consumer's.
        owned: what it said it had when it joined (cooperative members).
        assigned: what it was given.
        joined_after_ms: from the rebalance's beginning to its JoinGroup; None where unknown, or
            where it never rejoined.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] | None
    owned: tuple[TopicPartition, ...]
    assigned: tuple[TopicPartition, ...]
    joined_after_ms: int | None = None

    @property
    def key(self) -> str:
        """What it goes by over restarts."""
        return self.instance_id or self.member_id


class Generation(NamedTuple):
    """A generation as it was completed; without members: the group became empty.

    Attributes:
        generation: its number.
        completed_ms: when it was logged.
        protocol_type, protocol, leader: as agreed.
        members: who was in it, with what each was given.
    """

    generation: int
    completed_ms: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: tuple[Member, ...]

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """The key of the member that has each partition."""
        return {partition: each.key for each in self.members for partition in each.assigned}

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep their partitions while they rejoin (KIP-429)."""
        named = self.protocol is not None and "cooperative" in self.protocol
        return named or any(member.owned for member in self.members)


class Trigger(NamedTuple):
    """Why a rebalance began, and whose doing it was."""

    cause: str
    member_key: str | None = None
    member_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    reason: str | None = None
    subscription_change: str | None = None


class Rebalance(NamedTuple):
    """One logical rebalance: both generations of a cooperative one together.

    Attributes:
        group_id: whose.
        protocol: the assignor's name in the generation it ended with.
        from_generation: the last completed one before; None for a group's first.
        to_generation: the one it ended with.
        generations: how many were completed on the way.
        skipped_generations: numbers in between that were never completed.
        started_ms, completed_ms: when; the end is None where the journal breaks off.
        join_ms, sync_ms: the phases, summed up over its generations.
        initial_delay_ms: what the coordinator waited for more members of an empty group.
        unowned_partition_ms: the time without an owner, summed up over the partitions.
        trigger: why it began.
        joined, left, replaced: keys of members.
        members, partitions: after it.
        moved: partitions that had an owner and have another one.
        moved_min: as many as had to move for a balanced assignment; None where it can't be told.
        evidence: how this is known.
    """

    group_id: str
    protocol: str | None
    from_generation: int | None
    to_generation: int | None
    generations: int
    skipped_generations: int
    started_ms: int | None
    completed_ms: int | None
    join_ms: int | None
    sync_ms: int | None
    initial_delay_ms: int | None
    unowned_partition_ms: int | None
    trigger: Trigger
    joined: tuple[str, ...]
    left: tuple[str, ...]
    replaced: tuple[str, ...]
    members: int
    partitions: int
    moved: int
    moved_min: int | None
    evidence: Evidence

    @property
    def duration_ms(self) -> int | None:
        """From its beginning to its end."""
        if self.started_ms is None or self.completed_ms is None:
            return None
        return self.completed_ms - self.started_ms

    @property
    def excess_moved(self) -> int | None:
        """Moves that a better assignment would have saved."""
        return None if self.moved_min is None else self.moved - self.moved_min


class PartitionMove(NamedTuple):
    """A partition that changed hands in a rebalance; None: nobody had, or has, it."""

    group_id: str
    topic: str
    partition: int
    from_generation: int | None
    to_generation: int | None
    from_member_key: str | None
    to_member_key: str | None
    at_ms: int
    gap_ms: int | None


class Ownership(NamedTuple):
    """A partition in one member's hands; `to_ms` None: still, when the records end."""

    group_id: str
    topic: str
    partition: int
    member_key: str
    generation: int
    from_ms: int
    to_ms: int | None


class MemberSession(NamedTuple):
    """A member from its coming to its going; `exit_kind` None: it is there when the records end."""

    group_id: str
    member_key: str
    member_id: str
    client_id: str
    client_host: str
    first_seen_ms: int
    last_seen_ms: int | None
    exit_kind: str | None
    rebalances_caused: int


class GroupHistory(NamedTuple):
    """Everything that a group's records tell, each list in order of time."""

    group_id: str
    generations: list[Generation]
    rebalances: list[Rebalance]
    moves: list[PartitionMove]
    ownership: list[Ownership]
    sessions: list[MemberSession]
