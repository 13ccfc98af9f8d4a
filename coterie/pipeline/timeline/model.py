"""The parts of a group's history.

Units: `_ms` after `started`, `completed`, `from`, `to`, `at` or `seen` is epoch milliseconds; every
other `_ms` is a duration. Unknown values are None [pipeline/unknown-is-null]. Members are
identified by their keys [pipeline/member-identity].
"""

from enum import StrEnum
from typing import NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.protocol.messages import connect_protocol

# The types of groups; CONSUMER is also the protocol type of consumers.
CLASSIC, CONSUMER, STREAMS, SHARE = "classic", "consumer", "streams", "share"
# Those whose generations are epochs.
WITH_EPOCHS = (CONSUMER, STREAMS, SHARE)
# How sessions end, and begin again, when a group with members changes its type.
UPGRADE, DOWNGRADE = "upgrade", "downgrade"


def member_identity(
    instance_id: str | None, client_id: str | None, client_host: str | None
) -> str | None:
    """Return the instance id of a static member, else `CLIENT_ID at HOST`.

    A dynamic member has a new member id each time it joins, so whatever counts what a member does
    over time (causes of rebalances, short sessions) counts by identity [pipeline/member-identity].

    Returns:
        None if neither is known.
    """
    if instance_id:
        return instance_id
    if client_id is None and client_host is None:
        return None
    return f"{client_id or '?'} at {(client_host or '?').removeprefix('/')}"


def identity_of(
    member_key: str | None, member_id: str | None, client_id: str | None, client_host: str | None
) -> str | None:
    """Return the identity of a member by its key, which differs from its id if it is static."""
    is_static = member_key is not None and member_key != member_id
    return member_identity(member_key if is_static else None, client_id, client_host)


class Evidence(StrEnum):
    """How a rebalance is known."""

    JOURNAL = "journal"  # the coordinator recorded it
    LOG = "log"  # it follows from the generations in __consumer_offsets
    INFERRED = "inferred"  # the generations allow it, but do not prove it


class RecordedMember(NamedTuple):
    """A member of a generation.

    Attributes:
        member_id, instance_id, client_id, client_host: its identity.
        topics: the topics it subscribes to; None if its metadata is not that of a consumer.
        owned: the partitions it reported as owned when it joined (cooperative members).
        assigned: the partitions it was assigned.
        joined_after_ms: the time from the rebalance's beginning to its JoinGroup; None if unknown,
            or if it did not rejoin.
        session_timeout_ms, rebalance_timeout_ms: as its client set them; None if unknown.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] | None
    owned: tuple[TopicPartition, ...]
    assigned: tuple[TopicPartition, ...]
    joined_after_ms: int | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None

    @property
    def key(self) -> str:
        """The key in tables; a static member keeps it [pipeline/member-identity]."""
        return self.instance_id or self.member_id

    @property
    def identity(self) -> str | None:
        """The identity across all restarts [pipeline/member-identity]."""
        return member_identity(self.instance_id, self.client_id, self.client_host)


class Generation(NamedTuple):
    """A completed generation; without members the group became empty.

    Attributes:
        generation: its number.
        completed_ms: when it was logged.
        protocol_type, protocol, leader: the result of the join phase.
        members: its members with their assignments.
    """

    generation: int
    completed_ms: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: tuple[RecordedMember, ...]

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """The key of the member that owns each partition."""
        return {partition: each.key for each in self.members for partition in each.assigned}

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep their partitions while they rejoin (KIP-429; Connect's KIP-415)."""
        if self.protocol_type == connect_protocol.PROTOCOL_TYPE:
            return self.protocol in connect_protocol.INCREMENTAL_PROTOCOLS
        named = self.protocol is not None and "cooperative" in self.protocol
        return named or any(member.owned for member in self.members)


class Removed(NamedTuple):
    """The end of a classic group: it was deleted, or it has become a consumer group.

    Attributes:
        completed_ms: when that was logged.
    """

    completed_ms: int


class Trigger(NamedTuple):
    """Why a rebalance began, and which member caused it.

    A client that came back as another member is known by client id and host only.
    """

    cause: str
    member_key: str | None = None
    member_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    reason: str | None = None
    subscription_change: str | None = None

    @property
    def identity(self) -> str | None:
        """The identity of the member that caused it [pipeline/member-identity]."""
        return identity_of(self.member_key, self.member_id, self.client_id, self.client_host)


class Rebalance(NamedTuple):
    """One logical rebalance [pipeline/logical-rebalance].

    Attributes:
        group_id: the group.
        protocol: the assignor of the generation with which it ended.
        from_generation: the last completed generation before it; None for a group's first one.
        to_generation: the generation with which it ended.
        generations: the number of generations that it completed.
        skipped_generations: generations that were never completed [pipeline/skipped-generations].
        started_ms, completed_ms: its beginning and end; the end is None if the journal ends before
            it, or if it was cut off.
        join_ms, sync_ms: the phases, summed over its generations; None while it has not ended.
        initial_delay_ms: how long the coordinator waited for more members of an empty group.
        unowned_partition_ms: the time without owner, summed over partitions
            [pipeline/unowned-time].
        trigger: why it began.
        joined, left: keys of members.
        replaced: keys of static members that were restarted in it or in the generation with which
            it ended [pipeline/static-restart].
        members, partitions: the numbers after it.
        moved: partitions that had an owner before and have another one after it.
        moved_min: the moves that a balanced assignment needs; None if unknown
            [pipeline/moved-without-need].
        evidence: how it is known.
        group_type: CLASSIC, CONSUMER, STREAMS or SHARE; the generations of all but the first are
            epochs, and the partitions of a streams group its tasks.
        cut_off_by: UPGRADE or DOWNGRADE if the group became one of the other type before the
            rebalance had ended [pipeline/changed-type].
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
    group_type: str = CLASSIC
    cut_off_by: str | None = None

    @property
    def duration_ms(self) -> int | None:
        """The time from its beginning to its end."""
        if self.started_ms is None or self.completed_ms is None:
            return None
        return self.completed_ms - self.started_ms

    @property
    def is_first(self) -> bool:
        """Whether the group had no generation before, so that nothing was interrupted."""
        if self.group_type in WITH_EPOCHS:
            # Its epochs begin with 1, and the first member raises that. That of a streams group may
            # rise again before there are tasks.
            first = self.to_generation or 0
            if self.group_type == STREAMS:
                first -= self.skipped_generations
            return self.from_generation is None and first <= 2
        return self.from_generation is None and self.to_generation == 1

    @property
    def excess_moved(self) -> int | None:
        """The moves that a balanced assignment did not need."""
        return None if self.moved_min is None else self.moved - self.moved_min


class PartitionMove(NamedTuple):
    """A partition that changed its owner in a rebalance; None if it had, or has, no owner."""

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
    """The time for which a member owned a partition; `to_ms` None: until the end of the records.

    Attributes:
        topic, partition: the partition; of a task the subtopology and the number
            [pipeline/streams-tasks].
        role: active, standby or warm-up; None if it is no task.
        reads: the topics whose partition of this number an active task reads; None if it is no
            active task, or its topology is not known.
    """

    group_id: str
    topic: str
    partition: int
    member_key: str
    generation: int
    from_ms: int
    to_ms: int | None
    role: str | None = None
    reads: tuple[str, ...] | None = None


class MemberSession(NamedTuple):
    """The time for which a member was in the group [pipeline/member-sessions].

    Attributes:
        entry_kind: join, static restart, or static restart without rebalance.
        last_seen_ms, exit_kind: when and how it left; None if it has not left.
        exit_evidence: how the exit is known, as a sentence [pipeline/departures].
        silent_ms: how long it had been silent when it left; None if unknown [pipeline/departures].
        session_timeout_ms, rebalance_timeout_ms: see `Member`.
        rebalances_caused: the rebalances that it is known to have caused; None if it may have
            caused one, among several members, and none is known [pipeline/member-sessions].
    """

    group_id: str
    member_key: str
    member_id: str
    client_id: str
    client_host: str
    first_seen_ms: int
    last_seen_ms: int | None
    entry_kind: str
    exit_kind: str | None
    exit_evidence: str | None
    silent_ms: int | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    rebalances_caused: int | None

    @property
    def identity(self) -> str | None:
        """The identity of the member [pipeline/member-identity]."""
        return identity_of(self.member_key, self.member_id, self.client_id, self.client_host)


class EpochBump(NamedTuple):
    """A rise of a group's epoch [pipeline/epoch-rebalance].

    Attributes:
        group_id, epoch, at_ms: the group, the epoch to which it rose, and when.
        trigger: why it rose, and which member caused it.
        members: the members after it; None if it is not known.
        target_ms: when the target of this epoch was computed; None if it never was.
        assignor: the assignor that computed it; None if it is not known.
        changed_members, moved_partitions: the members with another target, and the partitions that
            go from one member to another.
        stable_ms: when all members had reached the target; None if the epoch rose before that.
        evidence: how the cause is known.
    """

    group_id: str
    epoch: int
    at_ms: int
    trigger: Trigger
    members: int | None
    target_ms: int | None
    assignor: str | None
    changed_members: int | None
    moved_partitions: int | None
    stable_ms: int | None
    evidence: Evidence


class Handover(NamedTuple):
    """A partition that a target gives to another member than its owner [pipeline/epoch-handovers].

    Attributes:
        epoch: that of the target.
        from_member_key, to_member_key: the owner, and the member that shall have it.
        asked_ms: when the target was computed.
        noticed_ms: when the owner was asked to give it up, with its next heartbeat; None if it was
            not asked, or gave it up at once.
        given_up_ms: when the owner had given it up, or was removed; None if it still has it.
        taken_ms: when the new owner had it; None if it does not have it yet.
        ended_by: "given up", or why the owner was removed; None if it still has the partition.
    """

    group_id: str
    epoch: int
    topic: str
    partition: int
    from_member_key: str
    to_member_key: str
    asked_ms: int
    noticed_ms: int | None
    given_up_ms: int | None
    taken_ms: int | None
    ended_by: str | None

    @property
    def give_up_ms(self) -> int | None:
        """How long the owner took to give it up; 0 if it was gone before the target."""
        return None if self.given_up_ms is None else max(0, self.given_up_ms - self.asked_ms)

    @property
    def take_over_ms(self) -> int | None:
        """How long the new owner took to have it, after it was free and its target was computed."""
        if self.given_up_ms is None or self.taken_ms is None:
            return None
        return max(0, self.taken_ms - max(self.given_up_ms, self.asked_ms))


class Copy(NamedTuple):
    """A standby or warm-up task: a copy of the state of an active one."""

    topic: str
    partition: int
    role: str


class EpochMember(NamedTuple):
    """A member of a consumer group or a streams group at the end of the records.

    Attributes:
        member: its ids, its client and what it subscribes to by name; `assigned` is what it has.
        is_classic: whether it uses the classic protocol.
        regex: the regular expression to which it subscribes; None if there is none.
        server_assignor: the assignor for which it asks; None if it asks for none.
        group_epoch, target_epoch: of its group.
        member_epoch, previous_epoch, state: its own; None if the log does not have them.
        since_ms: when it came into this state.
        target: what it shall have; None if the log does not have it.
        pending_revocation: what it has yet to give up.
        group_type: of its group.
        process_id: of a member of a streams group.
        copies, target_copies, pending_copies: as `member.assigned`, `target` and
            `pending_revocation`, which have the active tasks.
    """

    group_id: str
    member: RecordedMember
    is_classic: bool
    regex: str | None
    server_assignor: str | None
    group_epoch: int | None
    target_epoch: int | None
    member_epoch: int | None
    previous_epoch: int | None
    state: str | None
    since_ms: int | None
    target: tuple[TopicPartition, ...] | None
    pending_revocation: tuple[TopicPartition, ...]
    group_type: str = CONSUMER
    process_id: str | None = None
    copies: tuple[Copy, ...] = ()
    target_copies: tuple[Copy, ...] = ()
    pending_copies: tuple[Copy, ...] = ()


class Epochs(NamedTuple):
    """The epochs of a group; empty for a classic group."""

    bumps: list[EpochBump]
    handovers: list[Handover]
    members: list[EpochMember]


class GroupHistory(NamedTuple):
    """The history of a group, each list in order of time; `epochs` is None of a classic group."""

    group_id: str
    generations: list[Generation]
    rebalances: list[Rebalance]
    moves: list[PartitionMove]
    ownership: list[Ownership]
    sessions: list[MemberSession]
    epochs: Epochs | None = None
