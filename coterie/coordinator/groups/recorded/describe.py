"""What descriptions of groups have in common whose members send heartbeats."""

from typing import Any, TypeVar

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.recorded.lookup import find_group, no_group
from coterie.coordinator.groups.refusal import Refusal
from coterie.protocol.authorized_operations import (
    AUTHORIZED_OPERATIONS_OMITTED,
    GROUP_OPERATIONS,
)
from coterie.protocol.errors import ErrorCode

G = TypeVar("G", bound=RecordedGroup[Any])


class AskedGroup:
    """One group of a request that asks for descriptions. A type derives its own."""

    __slots__ = ("group_id", "with_operations")

    def __init__(self, group_id: str, *, with_operations: bool) -> None:
        self.group_id = group_id
        self.with_operations = with_operations

    @property
    def operations(self) -> int:
        """What the client may do with the group, as far as it has asked for that."""
        return GROUP_OPERATIONS if self.with_operations else AUTHORIZED_OPERATIONS_OMITTED

    def error(self, error: ErrorCode) -> ErrorCode:
        """Return the error of a group whose partition is not available."""
        return error if self.group_id else ErrorCode.INVALID_GROUP_ID


def asked_group(partition: PartitionState, asked: AskedGroup, cls: type[G], kind: str) -> G:
    """Return the group that is to be described.

    Args:
        partition: the partition of the group.
        asked: the group.
        cls: the class of the groups of its type.
        kind: the name of the type.

    Raises:
        Refusal: there is none, or it is of another type.
    """
    if not asked.group_id:
        raise Refusal(ErrorCode.INVALID_GROUP_ID)
    group = find_group(partition, asked.group_id, cls, kind)
    if group is None:
        raise no_group(asked.group_id)
    return group
