"""One member of a consumer group: what its records say, and its session."""

from functools import lru_cache

from coterie.coordinator.groups.consumer.states import MemberState
from coterie.coordinator.groups.recorded.member import RecordedMember
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
)

# Topic id to partition to the epoch at which the member received it.
Owned = dict[bytes, dict[int, int]]

_STATES: dict[int, MemberState] = {int(each): each for each in MemberState}
# Most members have nothing to give up; what a member has is replaced and not changed.
_NOTHING: Owned = {}
_NO_NAMES: frozenset[str] = frozenset()
# Many members subscribe to one topic each. The set of its name takes 216 bytes, and is shared.
_SHARED_SETS = 1_024


class ConsumerMember(RecordedMember):
    """One member.

    The first part follows from its records, and only `set_subscription` and `set_current` change
    it. The second part is not logged.

    Attributes:
        names: the topics to which it subscribes by name.
        regex: the regular expression to which it subscribes; "" for none.
        instance_id: the instance id of a static member.
        client_id: the client id with which it joined.
        classic: its protocols if it uses the classic protocol.
        state: that of `current`.
        assigned: the partitions that it may own.
        pending: the partitions that it has been asked to give up.

        revocation: the record for which its revocation timer was armed; None without one.
        awaits_join: whether it was asked to rejoin, as a classic member, and its join timer runs.
        awaits_sync: whether it has joined, as a classic member, and its sync timer runs.
        changed_ms: when its state was entered, for people.
    """

    __slots__ = (
        "assigned", "awaits_join", "awaits_sync", "changed_ms", "classic", "client_id",
        "instance_id", "names", "pending", "regex", "revocation", "state",
    )  # fmt: skip

    def __init__(self, member_id: str) -> None:
        """Create a member without records and without a session."""
        super().__init__(member_id)
        self.names: frozenset[str] = _NO_NAMES
        self.regex = self.client_id = ""
        self.instance_id: str | None = None
        self.classic: ClassicMemberMetadata | None = None
        self.state = MemberState.STABLE
        self.assigned: Owned = _NOTHING
        self.pending: Owned = _NOTHING
        self.revocation: ConsumerGroupCurrentMemberAssignmentValue | None = None
        self.awaits_join = False
        self.awaits_sync = False
        self.changed_ms = 0

    def __repr__(self) -> str:
        return f"ConsumerMember({self.member_id!r}, {self.epoch}, {self.state.name})"

    # -- records -----------------------------------------------------------------------------------

    def set_subscription(self, value: ConsumerGroupMemberMetadataValue | None) -> None:
        """Take over what the log says of the subscription."""
        self.subscription = value
        self.answer = None
        if value is None:
            self.names, self.regex, self.client_id = _NO_NAMES, "", ""
            self.instance_id = self.classic = None
            return
        self.names = _set_of(value.subscribed_topic_names)
        self.regex = value.subscribed_topic_regex or ""
        self.client_id, self.instance_id = value.client_id, value.instance_id
        self.classic = value.classic_member_metadata

    def set_current(self, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        """Take over what the log says of the current assignment."""
        before, self.current = self.current, value
        self.answer = None
        if value is None:
            self.epoch, self.previous_epoch, self.state = 0, -1, MemberState.STABLE
            self.assigned = self.pending = _NOTHING
            return
        self.epoch, self.previous_epoch = value.member_epoch, value.previous_member_epoch
        self.state = _STATES.get(value.state, MemberState.UNKNOWN)
        if before is None or value.assigned_partitions is not before.assigned_partitions:
            self.assigned = _owned(value.assigned_partitions, value.member_epoch)
        pending = value.partitions_pending_revocation
        self.pending = _owned(pending, value.member_epoch) if pending else _NOTHING

    def logged_assigned(self, assigned: Owned) -> list[CurrentTopicPartitions] | None:
        """Return how its record lists the partitions that it keeps.

        Args:
            assigned: what it has from now on.

        Returns:
            None if that is not what it has, or if the record does not tell the epochs.
        """
        if self.current is None or assigned is not self.assigned:
            return None
        topics = self.current.assigned_partitions
        return topics if all(map(_has_epochs, topics)) else None

    # -- the subscription --------------------------------------------------------------------------

    @property
    def assignor(self) -> str | None:
        """The assignor that it asks for."""
        name: str | None = None
        if self.subscription is not None:
            name = self.subscription.server_assignor
        return name

    def learns_nothing(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Return whether a heartbeat says nothing of it but its epoch and what it owns."""
        return (
            request.subscribed_topic_names is None
            and request.rebalance_timeout_ms == -1
            and request.subscribed_topic_regex is None
            and request.server_assignor is None
            and request.rack_id is None
            and (request.instance_id is None or request.instance_id == self.instance_id)
        )

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long it may take to give partitions up."""
        timeout_ms: int = (
            -1 if self.subscription is None else self.subscription.rebalance_timeout_ms
        )
        return timeout_ms


def _set_of(names: list[str]) -> frozenset[str]:
    return _set_of_one(names[0]) if len(names) == 1 else frozenset(names)


@lru_cache(maxsize=_SHARED_SETS)
def _set_of_one(name: str) -> frozenset[str]:
    return frozenset((name,))


def _owned(topics: list[CurrentTopicPartitions], epoch: int) -> Owned:
    """Return partitions with their epochs [consumer-groups/two-owners]."""
    owned: Owned = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or not _has_epochs(topic):
            epochs = [max(epoch, 0)] * len(topic.partitions)
        owned.setdefault(topic.topic_id, {}).update(zip(topic.partitions, epochs, strict=True))
    return owned


def _has_epochs(topic: CurrentTopicPartitions) -> bool:
    """Return whether a record tells the epoch of each partition."""
    epochs = topic.assignment_epochs
    return epochs is not None and len(epochs) == len(topic.partitions)


def logged_partitions(owned: Owned) -> list[CurrentTopicPartitions]:
    """Return partitions with their epochs as the log has them."""
    return [
        CurrentTopicPartitions.of(
            topic_id, sorted(partitions), [partitions[index] for index in sorted(partitions)]
        )
        for topic_id, partitions in sorted(owned.items())
        if partitions
    ]
