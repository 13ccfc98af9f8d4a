"""A consumer group, with the answers that a group of any type gives."""

from collections.abc import Sequence
from typing import Any

from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.consumer.group_state import ConsumerGroupState
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.states import GroupState, MemberState
from coterie.coordinator.groups.group_like import SeenMember
from coterie.coordinator.groups.seen_members import seen_member
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


class ConsumerGroup(ConsumerGroupState):
    """One consumer group: its records, and what is not logged.

    Attributes:
        resolution: the matching of regular expressions that is under way; None if there is none.
        downgrade: the conversion of a large group that is to become a classic one; None if it is
            not.
        too_large_epoch: the epoch whose target was larger than a batch; -1 if none was.
        resolved_version: the version of the topics at the latest resolution; None after a load.
        too_large_ms: when the result of a resolution was larger than a batch; 0 if that never was.
    """

    __slots__ = (
        "downgrade", "resolution", "resolved_version", "too_large_epoch", "too_large_ms",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        """Create a group without records."""
        super().__init__(group_id)
        self.resolution: Any = None
        self.downgrade: Any = None
        self.too_large_epoch = -1
        self.resolved_version: int | None = None
        self.too_large_ms = 0

    def __repr__(self) -> str:
        return (
            f"ConsumerGroup({self.group_id!r}, {self.derived_state().value}, epoch={self.epoch}, "
            f"target={self.target_epoch}, members={list(self.members.values())})"
        )

    # -- members -----------------------------------------------------------------------------------

    def preferred_assignor(self, default: str, asking: str | None = None) -> str:
        """Return the assignor that most members ask for [consumer-groups/preferred-assignor].

        Of equals "uniform" comes first in Kafka's tables, unless the member whose request computes
        the target is the only one that asks for the other.

        Args:
            default: the assignor of a group whose members ask for none.
            asking: what the member asks for whose request computes the target.
        """
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.assignor
            if name is not None:
                votes[name] = votes.get(name, 0) + 1
        if not votes:
            return default
        most = max(votes.values())
        assert most <= len(self.members), f"a member of {self} has one vote"
        if most == 1 and asking is not None:
            return asking
        return max(name for name, count in votes.items() if count == most)

    def holder(self, request: Any) -> str | None:
        """See `RecordedGroup`."""
        return None if request.instance_id is None else self.static_members[request.instance_id]

    def hears_nothing_new(self, request: Any, member: ConsumerMember, config: GroupConfig) -> bool:
        """See `RecordedGroup`."""
        # As in `consumer_settings`, without the calls: this is the most frequent request.
        table = config.consumer.settings
        return (
            isinstance(request, ConsumerGroupHeartbeatRequest)
            and request.topic_partitions is None
            and member.learns_nothing(request)
            and table.own.get(self.group_id, table.default) is member.settings
        )

    # -- what all groups have in common ------------------------------------------------------------

    def seen_members(self) -> Sequence[SeenMember]:
        """See `GroupLike`."""
        return [
            seen_member(member, self.topics_of(member), member.assigned, self.topics)
            for member in self.members.values()
        ]

    def waits_for(self, now_ms: int) -> str | None:
        """See `GroupLike`."""
        state = self.derived_state()
        if self.computation is not None:
            return "the computation of the assignment"
        if state is GroupState.ASSIGNING:
            return "the next heartbeat of a member, which computes the assignment"
        if state is not GroupState.RECONCILING:
            return None
        parts = []
        for member in self.members.values():
            name, since_ms = member.client_id or member.member_id, now_ms - member.changed_ms
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                count = sum(map(len, member.pending.values()))
                parts.append(f"{name} to give up {count} partitions ({since_ms / 1000:.1f} s)")
            elif member.epoch < self.target_epoch:
                parts.append(f"a heartbeat of {name}")
        return ", ".join(parts) or "partitions that are not released yet"

    # -- offsets -----------------------------------------------------------------------------------

    def is_classic(self, member: ConsumerMember) -> bool:
        """See `CommittingGroup`."""
        return member.classic is not None

    def received_epoch(
        self,
        member: ConsumerMember,
        topic: str,  # noqa: ARG002 - partitions are those of a topic's id
        topic_id: bytes,
        index: int,
    ) -> int | None:
        """See `CommittingGroup`."""
        received = member.assigned.get(topic_id, {}).get(index)
        return member.pending.get(topic_id, {}).get(index) if received is None else received

    def is_consuming(self, topic: str) -> bool:
        """See `GroupLike`."""
        if topic in self.by_name:
            return True
        return any(topic in each.topics for each in self.regexes.values())
