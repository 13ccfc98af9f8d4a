"""A group that is what its records add up to, and the answers that all such groups give.

`apply` takes one record, and is the only code that changes what is logged. A verb applies each of
its records at once, so its next step sees what the one before it has done, and takes them back if
they do not fit one batch (`tentative_step.py`).
"""

from collections.abc import Iterator
from typing import Any

from coterie.coordinator.groups.epochs import FIRST_EPOCH
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.listing_order import in_listing_order
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_groups import DescribeGroupsResponseGroup
from coterie.protocol.wire import Message

_NO_TOPICS = TopicsImage({}, {})


class RecordedGroup(GroupLike):
    """A group that is what its records add up to, and what is not logged.

    Attributes:
        metadata: its epoch and the hash of its topics, as logged; None before the first record.
        epoch: the group epoch: it rises when members, subscriptions or topics change.
        target_metadata: the epoch of its target and when it was computed; None before the first.
        target_epoch: the group epoch for which the target was computed.
        target_values: by member id, what it shall have, as it is logged.
        members: by id, in the order in which they joined; see `RecordedMember`.

        most_members: the most members that it has had.
        unlogged: the number of records that a verb has applied and the partition has not yet.
        topics: the topics of the cluster.
        checked_version: the version of the topics for which the metadata hash was compared; None
            after creation and after a load.
        bumped_ms: when the epoch rose last, for people.
        computation: the computation of a large target that is under way; None if there is none.
        is_gone: whether its partition was given up.
    """

    __slots__ = (
        "bumped_ms", "checked_version", "computation", "epoch", "is_gone", "members", "metadata",
        "most_members", "target_epoch", "target_metadata", "target_values", "topics", "unlogged",
    )  # fmt: skip

    def __init__(self, group_id: str, protocol_type: str) -> None:
        """Create a group without records.

        Args:
            group_id: its id.
            protocol_type: the name of its type, which is that of its protocol type.
        """
        self.group_id = group_id
        self.id_hash = None
        self.protocol_type = protocol_type
        self.metadata: Any = None
        self.epoch = FIRST_EPOCH
        self.target_metadata: Any = None
        self.target_epoch = FIRST_EPOCH
        self.target_values: dict[str, Any] = {}
        self.members: dict[str, Any] = {}
        self.most_members = 0
        self.unlogged = 0
        self.topics = _NO_TOPICS
        self.checked_version: int | None = None
        self.bumped_ms = 0
        self.computation: Any = None
        self.is_gone = False

    # -- records -----------------------------------------------------------------------------------

    def apply(self, key: Message, value: Any) -> Any:
        """Apply one record and return the value that it replaces; null removes one."""
        raise NotImplementedError

    def set_metadata(self, value: Any) -> Any:
        """Take over the record of its epoch; return the one before."""
        before, self.metadata = self.metadata, value
        self.epoch = FIRST_EPOCH if value is None else value.epoch
        return before

    def set_target_metadata(self, value: Any) -> Any:
        """Take over the record of the epoch of its target; return the one before."""
        before, self.target_metadata = self.target_metadata, value
        self.target_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
        return before

    def set_target(self, member_id: str, value: Any) -> Any:
        """Take over the target of a member; return the one before. One that stays has its place."""
        before = self.target_values.get(member_id)
        if value is None:
            self.target_values.pop(member_id, None)
        else:
            self.target_values[member_id] = value
        return before

    def leave_out_blank(self, member: Any) -> None:
        """Forget a member of which the log says nothing."""
        if member.is_blank:
            del self.members[member.member_id]

    @property
    def is_blank(self) -> bool:
        """Whether the log says nothing of it."""
        return not (self.members or self.target_values) and (
            self.metadata is None and self.target_metadata is None
        )

    def named_values(self) -> Iterator[tuple[str, Message | None]]:
        """Yield the values that count under names, so that two logs compare; null for none."""
        yield "epoch", self.metadata
        yield "target epoch", self.target_metadata
        for member_id, member in self.members.items():
            yield f"subscription {member_id}", member.subscription
            yield f"assignment {member_id}", member.current
        for member_id, target in self.target_values.items():
            yield f"target {member_id}", target

    # -- what the records say ----------------------------------------------------------------------

    @property
    def metadata_hash(self) -> int:
        """The hash of the topics at the latest change of the epoch."""
        metadata = self.metadata
        found: int = 0 if metadata is None else metadata.metadata_hash
        return found

    @property
    def target_ms(self) -> int:
        """When the target was computed; 0 if that is not known, so that one is due."""
        value = self.target_metadata
        found: int = 0 if value is None else value.assignment_timestamp
        return found

    def ordered_ids(self) -> list[str]:
        """Return the ids of the members in Kafka's order of listings."""
        # Each member is stored twice when it joins, and the second time its table grows, too.
        return in_listing_order(list(self.members), self.most_members + 1)

    # -- what all groups have in common ------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """See `GroupLike`."""
        return not self.is_gone

    @property
    def is_empty(self) -> bool:
        """See `GroupLike`."""
        return not self.members

    @property
    def member_count(self) -> int:
        """See `GroupLike`."""
        return len(self.members)

    def delete_error(self) -> tuple[ErrorCode, str | None]:
        """See `GroupLike`."""
        if not self.members:
            return ErrorCode.NONE, None
        text = f"Group {self.group_id} has {len(self.members)} members in state {self.state_name}."
        return ErrorCode.NON_EMPTY_GROUP, text

    def logged_generation(self) -> int:
        """See `GroupLike`."""
        return self.epoch

    def describe(self, operations: int) -> DescribeGroupsResponseGroup | None:  # noqa: ARG002
        """See `GroupLike`; it cannot be described as a classic group."""
        return None
