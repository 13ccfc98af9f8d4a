"""A streams group: what its records add up to, and the answers that a group of any type gives.

Invariant: `holders` has the tasks that members have in `assigned` or `pending`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.group_like import SeenMember
from coterie.coordinator.groups.recorded.committing import CommittingGroup
from coterie.coordinator.groups.recorded.group import RecordKeys
from coterie.coordinator.groups.seen_members import seen_member
from coterie.coordinator.groups.streams.holders import TaskHolders
from coterie.coordinator.groups.streams.member import StreamsMember
from coterie.coordinator.groups.streams.states import GroupState, MemberState
from coterie.coordinator.groups.streams.tasks import TaskRoles, target_of
from coterie.coordinator.streams_topology.model import ConfiguredTopology
from coterie.coordinator.streams_topology.names import required_topics
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
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


class StreamsGroup(CommittingGroup[StreamsMember]):
    """One streams group.

    Attributes:
        topology: its topology as it is logged; None before the first record.
        required: the topics that the topology needs.
        readers: by source topic, the subtopologies that read it.
        holders: who holds its tasks.

        configured: its topology with its tasks; None after a load, and if topics have changed.
        delay_ends_ms: until when the initial rebalance delay runs; 0 if it does not.
        endpoint_epoch: rises when a response has the tasks of a member with an endpoint.
        shutdown_by: the member that asked the application to shut down; None if none did.
    """

    TYPE: ClassVar[str] = STREAMS
    KEYS: ClassVar[RecordKeys] = RecordKeys(
        StreamsGroupMetadataKey,
        StreamsGroupMemberMetadataKey,
        StreamsGroupTargetAssignmentMetadataKey,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupCurrentMemberAssignmentKey,
        (StreamsGroupTopologyKey,),
    )

    __slots__ = (
        "configured", "delay_ends_ms", "endpoint_epoch", "holders", "readers", "required",
        "shutdown_by", "topology",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        """Create a group without records."""
        super().__init__(group_id)
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

    def derived_state(self) -> GroupState:
        """See `RecordedGroup`."""
        if not self.members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        settled = all(each.is_settled(self.target_epoch) for each in self.members.values())
        return GroupState.STABLE if settled else GroupState.RECONCILING

    def hears_nothing_new(self, request: Any, member: StreamsMember, config: GroupConfig) -> bool:
        """See `RecordedGroup`."""
        table = config.streams.settings
        return (
            isinstance(request, StreamsGroupHeartbeatRequest)
            and request.active_tasks is None
            and request.standby_tasks is None
            and request.warmup_tasks is None
            and request.task_offsets is None
            and request.task_end_offsets is None
            and request.instance_id is None
            and request.endpoint_information_epoch == self.endpoint_epoch
            and member.answer.endpoint_information_epoch == self.endpoint_epoch
            and not request.shutdown_application
            and self.shutdown_by is None
            and describes_nothing(request)
            and table.own.get(self.group_id, table.default) is member.settings
        )

    @property
    def is_blank(self) -> bool:
        """See `RecordedGroup`."""
        return super().is_blank and self.topology is None

    def named_values(self) -> Iterator[tuple[str, Message | None]]:
        """See `RecordedGroup`."""
        yield from super().named_values()
        yield "topology", self.topology

    # -- records -----------------------------------------------------------------------------------

    def new_member(self, member_id: str) -> StreamsMember:
        """See `RecordedGroup`."""
        return StreamsMember(member_id)

    def set_other(self, key: Any, value: Any) -> Any:  # noqa: ARG002 - it is the topology
        """See `RecordedGroup`."""
        before, self.topology = self.topology, value
        self.configured = None
        self.required = [] if value is None else required_topics(value)
        self.readers = {} if value is None else _readers(value)
        return before

    def count(self, member: StreamsMember, step: int) -> None:
        """See `RecordedGroup`: what a member holds counts for its process."""
        for held in (member.assigned, member.pending):
            self.holders.count(member.process_id, held, step)

    def replace_current(self, member: StreamsMember, value: Any) -> None:
        """See `RecordedGroup`."""
        self.count(member, -1)
        member.set_current(value)
        self.count(member, 1)

    def count_in(self, process_id: str, member: StreamsMember, instead_of: str) -> None:
        """Count what a member holds as held by one process, and not by another."""
        for held in (member.assigned, member.pending):
            self.holders.count(instead_of, held, -1)
            self.holders.count(process_id, held, 1)

    # -- what all groups have in common ------------------------------------------------------------

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

    def last_keys(self) -> Iterator[Message]:
        """See `RecordedGroup` [streams-groups/delete]."""
        yield StreamsGroupMetadataKey(group_id=self.group_id)
        yield StreamsGroupTopologyKey(group_id=self.group_id)


def describes_nothing(request: StreamsGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat describes nothing of its member, as most do."""
    return (
        request.rebalance_timeout_ms == -1
        and request.topology is None
        and request.process_id is None
        and request.user_endpoint is None
        and request.client_tags is None
        and request.rack_id is None
    )


def _readers(topology: StreamsGroupTopologyValue) -> Mapping[str, Sequence[str]]:
    """Return the subtopologies that read each source topic and each repartition topic."""
    readers: dict[str, list[str]] = {}
    for each in topology.subtopologies:
        names = [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for name in dict.fromkeys(names):
            readers.setdefault(name, []).append(each.subtopology_id)
    return readers
