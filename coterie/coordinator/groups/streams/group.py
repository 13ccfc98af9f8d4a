"""A streams group: what its records add up to, and the answers that a group of any type gives.

Invariant: `holders` has the tasks that members have in `assigned` or `pending`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coterie.coordinator.groups.group_like import SeenMember
from coterie.coordinator.groups.recorded.committing import CommittingGroup
from coterie.coordinator.groups.seen_members import seen_member
from coterie.coordinator.groups.streams.holders import TaskHolders
from coterie.coordinator.groups.streams.member import StreamsMember
from coterie.coordinator.groups.streams.states import GroupState, MemberState
from coterie.coordinator.groups.streams.tasks import TaskRoles, target_of
from coterie.coordinator.kernel.append import Record
from coterie.coordinator.streams_topology.model import ConfiguredTopology
from coterie.coordinator.streams_topology.names import required_topics
from coterie.protocol.messages.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from coterie.protocol.wire import Message

# The name of the type and of the protocol type.
STREAMS = "streams"

# The validated epoch of a group without a validated topology.
NOT_VALIDATED = -1
# How a ListGroups asks for groups that are NotReady; other states are asked for by their names.
_NOT_READY_FILTER = "not_ready"


class StreamsGroup(CommittingGroup):
    """One streams group.

    Attributes:
        topology: its topology as it is logged; None before the first record.
        required: the topics that the topology needs.
        readers: by source topic, the subtopologies that read it.
        holders: who holds its tasks.

        configured: its topology with its tasks; None after a load, and if topics have changed.
        delay_ends_ms: until when the initial rebalance delay runs; 0 if it does not.
        endpoint_epoch: rises when members with endpoints are told their tasks.
        shutdown_by: the member that asked the application to shut down; None if none did.
    """

    __slots__ = (
        "configured", "delay_ends_ms", "endpoint_epoch", "holders", "readers", "required",
        "shutdown_by", "topology",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        """Create a group without records."""
        super().__init__(group_id, STREAMS)
        self.members: dict[str, StreamsMember] = {}
        self.topology: StreamsGroupTopologyValue | None = None
        self.required: list[str] = []
        self.readers: Mapping[str, Sequence[str]] = {}
        self.holders = TaskHolders()
        self.configured: ConfiguredTopology | None = None
        self.delay_ends_ms = 0
        self.endpoint_epoch = 0
        self.shutdown_by: str | None = None

    def __repr__(self) -> str:
        return (
            f"StreamsGroup({self.group_id!r}, {self.state_name}, epoch={self.epoch}, "
            f"target={self.target_epoch}, members={list(self.members.values())})"
        )

    # -- what the records say ----------------------------------------------------------------------

    @property
    def validated_epoch(self) -> int:
        """The epoch of the topology for which its topics were found valid."""
        if self.metadata is None:
            return NOT_VALIDATED
        epoch: int = self.metadata.validated_topology_epoch
        return epoch

    @property
    def assignment_configs(self) -> dict[str, str]:
        """The settings of the latest assignment."""
        configs = None if self.metadata is None else self.metadata.last_assignment_configs
        return {each.key: each.value for each in configs or ()}

    def target(self, member_id: str) -> TaskRoles:
        """Return the tasks that a member shall have."""
        return target_of(self.target_values.get(member_id))

    def subscribed_topics(self) -> list[str]:
        """Return the topics that the topology needs, whether they exist or not."""
        return self.required

    def ordered_members(self) -> list[StreamsMember]:
        """Return the members in Kafka's order of listings."""
        return [self.members[each] for each in self.ordered_ids()]

    def derived_state(self) -> GroupState:
        """Return the state that follows from the records."""
        if not self.members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        settled = all(each.is_settled(self.target_epoch) for each in self.members.values())
        return GroupState.STABLE if settled else GroupState.RECONCILING

    @property
    def is_blank(self) -> bool:
        """See `RecordedGroup`."""
        return super().is_blank and self.topology is None

    def named_values(self) -> Iterator[tuple[str, Message | None]]:
        """See `RecordedGroup`."""
        yield from super().named_values()
        yield "topology", self.topology

    # -- records -----------------------------------------------------------------------------------

    def apply(self, key: Message, value: Any) -> Any:
        """See `RecordedGroup`."""
        kind = type(key)
        if kind is StreamsGroupCurrentMemberAssignmentKey:
            return self._set_current(key.member_id, value)  # type: ignore[attr-defined]
        if kind is StreamsGroupTargetAssignmentMemberKey:
            return self.set_target(key.member_id, value)  # type: ignore[attr-defined]
        if kind is StreamsGroupMemberMetadataKey:
            return self._set_subscription(key.member_id, value)  # type: ignore[attr-defined]
        if kind is StreamsGroupMetadataKey:
            return self.set_metadata(value)
        if kind is StreamsGroupTargetAssignmentMetadataKey:
            return self.set_target_metadata(value)
        assert kind is StreamsGroupTopologyKey, key
        before, self.topology = self.topology, value
        self.configured = None
        self.required = [] if value is None else required_topics(value)
        self.readers = {} if value is None else _readers(value)
        return before

    def _set_subscription(self, member_id: str, value: Any) -> Any:
        member = self._member(member_id)
        before = member.subscription
        self._release(member)
        member.set_subscription(value)
        self._occupy(member)
        self.leave_out_blank(member)
        return before

    def _set_current(self, member_id: str, value: Any) -> Any:
        member = self._member(member_id)
        before = member.current
        self._release(member)
        member.set_current(value)
        self._occupy(member)
        self.leave_out_blank(member)
        return before

    def _member(self, member_id: str) -> StreamsMember:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = StreamsMember(member_id)
            self.most_members = max(self.most_members, len(self.members))
        return member

    def _occupy(self, member: StreamsMember) -> None:
        self.holders.add(member.process_id, member.assigned)
        self.holders.add(member.process_id, member.pending)

    def count_in(self, process_id: str, member: StreamsMember, instead_of: str) -> None:
        """Count what a member holds as held by one process, and not by another."""
        for held in (member.assigned, member.pending):
            self.holders.remove(instead_of, held)
            self.holders.add(process_id, held)

    def _release(self, member: StreamsMember) -> None:
        self.holders.remove(member.process_id, member.assigned)
        self.holders.remove(member.process_id, member.pending)

    # -- what all groups have in common ------------------------------------------------------------

    @property
    def group_type(self) -> str:
        """See `GroupLike`."""
        return STREAMS

    @property
    def state_name(self) -> str:
        """See `GroupLike`."""
        return (GroupState.DEAD if self.is_gone else self.derived_state()).value

    @property
    def state_filter(self) -> str:
        """See `GroupLike`."""
        name = self.state_name
        return _NOT_READY_FILTER if name == GroupState.NOT_READY else name.lower()

    def seen_members(self) -> Sequence[SeenMember]:
        """See `GroupLike`; what a member is assigned are the partitions that its tasks read."""
        by_name = self.topics.by_name
        seen = []
        for member in self.members.values():
            assigned: dict[bytes, set[int]] = {}
            for topic, subtopologies in self.readers.items():
                found = by_name.get(topic)
                for each in subtopologies:
                    if found is not None and each in member.assigned.active:
                        assigned.setdefault(found.topic_id, set()).update(
                            member.assigned.active[each]
                        )
            seen.append(seen_member(member, self.readers, assigned, self.topics))
        return seen

    def waits_for(self, now_ms: int) -> str | None:
        """See `GroupLike`."""
        state = self.derived_state()
        if state is GroupState.NOT_READY:
            status = None if self.configured is None else self.configured.status
            return "its topics" if status is None else f"its topics: {status.detail}"
        if self.computation is not None:
            return "the computation of the assignment"
        if state is GroupState.ASSIGNING:
            if self.delay_ends_ms > now_ms:
                left_ms = self.delay_ends_ms - now_ms
                return f"more members ({left_ms / 1000:.1f} s of the initial rebalance delay)"
            return "the next heartbeat of a member, which computes the assignment"
        if state is not GroupState.RECONCILING:
            return None
        parts = []
        for member in self.members.values():
            name, since_ms = member.client_id or member.member_id, now_ms - member.changed_ms
            if member.state is MemberState.UNREVOKED_TASKS:
                count = member.pending.without_epochs().size
                parts.append(f"{name} to give up {count} tasks ({since_ms / 1000:.1f} s)")
            elif member.epoch < self.target_epoch:
                parts.append(f"a heartbeat of {name}")
        return ", ".join(parts) or "tasks that are not released yet"

    # -- offsets -----------------------------------------------------------------------------------

    def received_epoch(
        self,
        member: StreamsMember,
        topic: str,
        topic_id: bytes,  # noqa: ARG002 - topologies name topics
        index: int,
    ) -> int | None:
        """See `CommittingGroup`."""
        for each in self.readers.get(topic, ()):
            for held in (member.assigned, member.pending):
                received = held.active.get(each, {}).get(index)
                if received is not None:
                    return received
        return None

    def is_consuming(self, topic: str) -> bool:
        """See `GroupLike` [streams-groups/offsets]."""
        return bool(self.members) and topic in self.readers

    # -- administration ----------------------------------------------------------------------------

    def member_tombstones(self, member_id: str) -> list[Message]:
        """Return the keys of a member's records, in Kafka's order of their removal."""
        group_id = self.group_id
        return [
            StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
            StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
            StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
        ]

    def tombstones(self) -> Sequence[Record]:
        """See `GroupLike` [streams-groups/delete]."""
        group_id = self.group_id
        members = self.ordered_ids()
        targets = [*members, *(each for each in self.target_values if each not in self.members)]
        keys: list[Message] = [
            *(
                StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each)
                for each in members
            ),
            *(
                StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each)
                for each in targets
            ),
            StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
            *(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=each) for each in members),
            StreamsGroupMetadataKey(group_id=group_id),
            StreamsGroupTopologyKey(group_id=group_id),
        ]
        return [(key, None) for key in keys]


def _readers(topology: StreamsGroupTopologyValue) -> Mapping[str, Sequence[str]]:
    """Return the subtopologies that read each source topic and each repartition topic."""
    readers: dict[str, list[str]] = {}
    for each in topology.subtopologies:
        names = [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for name in dict.fromkeys(names):
            readers.setdefault(name, []).append(each.subtopology_id)
    return readers
