"""What descriptions of groups have in common whose members send heartbeats."""

from typing import Any, ClassVar

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.recorded.lookup import existing_group
from coterie.coordinator.groups.refusal import Refusal
from coterie.protocol.authorized_operations import (
    AUTHORIZED_OPERATIONS_OMITTED,
    GROUP_OPERATIONS,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.refusals import refused_part


class AskedGroup:
    """One group of a request that asks for descriptions. A type derives its own.

    Attributes:
        GROUPS: the class of the groups of the type.
        PART: the class of their descriptions.
    """

    GROUPS: ClassVar[type[RecordedGroup[Any]]]
    PART: ClassVar[type[Any]]

    __slots__ = ("group_id", "with_operations")

    def __init__(self, group_id: str, *, with_operations: bool) -> None:
        self.group_id = group_id
        self.with_operations = with_operations

    @property
    def operations(self) -> int:
        """What the client may do with the group, as far as it has asked for that."""
        return GROUP_OPERATIONS if self.with_operations else AUTHORIZED_OPERATIONS_OMITTED

    def description(self, partition: PartitionState, group: Any) -> Any:
        """Return the description of a group."""
        raise NotImplementedError

    def refused(self, error: ErrorCode, text: str | None = None) -> Any:
        """Return what stands in the place of the description."""
        return refused_part(self.PART, self.group_id, error, error_message=text)


def described(partition: PartitionState, asked: AskedGroup) -> Any:
    """Return the description of a group, or in its place why there is none."""
    if not asked.group_id:
        return asked.refused(ErrorCode.INVALID_GROUP_ID)
    try:
        group = existing_group(partition, asked.group_id, asked.GROUPS)
    except Refusal as refusal:
        return asked.refused(refusal.error, refusal.text)
    return asked.description(partition, group)


def unavailable_part(asked: AskedGroup, error: ErrorCode, _version: int) -> Any:
    """Return the part of the response about a group whose partition is not available.

    A group without an id cannot exist, which is said first.
    """
    return asked.refused(error if asked.group_id else ErrorCode.INVALID_GROUP_ID)
