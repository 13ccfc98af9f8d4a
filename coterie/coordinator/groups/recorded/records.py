"""The records of the groups of one type, which are the live groups."""

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.replay import GroupRecords
from coterie.protocol.wire import Message

G = TypeVar("G", bound=RecordedGroup[Any])


class RecordedGroups(GroupRecords, Generic[G]):
    """The groups of one type of one partition.

    Attributes:
        groups: by id, those of which the log says anything. They are the live groups.
    """

    def __init__(self, cls: type[G]) -> None:
        """Start without records of groups of a class; the first field of their keys is the id."""
        super().__init__(cls.KEYS.all)
        self._class = cls
        self.groups: dict[str, G] = {}

    def apply(self, key: Message, value: Message | None) -> None:
        """See `GroupRecords`; a record that its verb has applied is not applied again.

        Otherwise a member that returns under its id would be removed, with its session.
        """
        group_id: str = key.group_id  # type: ignore[attr-defined]  # the first field of each key
        group = self.groups.get(group_id)
        if group is None:
            if value is None:
                return
            group = self.groups[group_id] = self._class(group_id)
        assert group.group_id == group_id, f"{group} is listed as {group_id}"
        if group.unlogged:
            group.unlogged -= 1
        else:
            group.apply(key, value)
        if not group.members and not group.unlogged and group.is_blank:
            del self.groups[group_id]

    def values(self) -> Mapping[str, Message]:
        """See `GroupRecords`."""
        return dict(self._values())

    def _values(self) -> Iterator[tuple[str, Message]]:
        for group_id, group in self.groups.items():
            for name, value in group.named_values():
                if value is not None:
                    yield f"{group_id} {name}", value


def logged_groups(partition: PartitionState, cls: type[G]) -> dict[str, G]:
    """Return the groups of a class in a partition, by id, as its log describes them."""
    records = partition.logged.of_types[cls.TYPE]
    assert isinstance(records, RecordedGroups), records
    groups: dict[str, G] = records.groups
    return groups
