"""One member of a streams group: what its records say, and its session."""

from coterie.coordinator.groups.recorded.member import RecordedMember
from coterie.coordinator.groups.streams.states import MemberState
from coterie.coordinator.groups.streams.tasks import NO_TASKS, HeldTasks, held_tasks
from coterie.protocol.messages.streams_group_records import (
    StreamsEndpoint,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
)

_STATES: dict[int, MemberState] = {int(each): each for each in MemberState}


class StreamsMember(RecordedMember):
    """One member.

    Attributes:
        process_id: its process, in which no task is twice.
        state: that of `current`.
        assigned: the tasks that it may have.
        pending: the tasks that it has been asked to give up.

        revocation: the record for which its revocation timer was armed; None without one.
        changed_ms: when its state was entered, for people.
    """

    __slots__ = ("assigned", "changed_ms", "pending", "process_id", "revocation", "state")

    def __init__(self, member_id: str) -> None:
        """Create a member without records and without a session."""
        super().__init__(member_id)
        self.process_id = ""
        self.state = MemberState.STABLE
        self.assigned: HeldTasks = NO_TASKS
        self.pending: HeldTasks = NO_TASKS
        self.revocation: StreamsGroupCurrentMemberAssignmentValue | None = None
        self.changed_ms = 0

    def __repr__(self) -> str:
        return f"StreamsMember({self.member_id!r}, {self.epoch}, {self.state.name})"

    def set_subscription(self, value: StreamsGroupMemberMetadataValue | None) -> None:
        """See `RecordedMember`."""
        self.subscription = value
        self.answer = None
        self.process_id = "" if value is None else value.process_id

    def set_current(self, value: StreamsGroupCurrentMemberAssignmentValue | None) -> None:
        """See `RecordedMember`."""
        self.current = value
        self.answer = None
        if value is None:
            self.epoch, self.previous_epoch, self.state = 0, -1, MemberState.STABLE
            self.assigned = self.pending = NO_TASKS
            return
        epoch = self.epoch = value.member_epoch
        self.previous_epoch = value.previous_member_epoch
        self.state = _STATES.get(value.state, MemberState.UNKNOWN)
        self.assigned = held_tasks(
            value.active_tasks, value.standby_tasks, value.warmup_tasks, epoch
        )
        self.pending = held_tasks(
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
            epoch,
        )

    def is_settled(self, epoch: int) -> bool:
        """Return whether it has all of the target of an epoch."""
        known = self.current is not None
        return known and self.state is MemberState.STABLE and self.epoch == epoch

    # -- what it says of itself --------------------------------------------------------------------

    @property
    def description(self) -> StreamsGroupMemberMetadataValue:
        """Its description as it is logged; one of a member that the log does not describe."""
        value = self.subscription
        if value is None:
            return StreamsGroupMemberMetadataValue(
                instance_id=None, rack_id=None, client_id="", client_host="",
                topology_epoch=-1, process_id="", client_tags=[],
            )  # fmt: skip
        assert isinstance(value, StreamsGroupMemberMetadataValue), value
        return value

    @property
    def instance_id(self) -> str | None:
        """Its instance id; Kafka 4.3 lets no member have one."""
        return self.description.instance_id

    @property
    def client_id(self) -> str:
        """The client id of its latest heartbeat."""
        return self.description.client_id

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long it may take to give tasks up."""
        return self.description.rebalance_timeout_ms

    @property
    def topology_epoch(self) -> int:
        """The epoch of the topology with which it joined."""
        return self.description.topology_epoch

    @property
    def endpoint(self) -> StreamsEndpoint | None:
        """The address at which it answers queries."""
        return self.description.user_endpoint
