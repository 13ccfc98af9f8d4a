"""The records of the groups of one type, which are the live groups."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.replay import GroupRecords
from coterie.protocol.wire import Message


class RecordedGroups(GroupRecords):
    """The groups of one type of one partition.

    Attributes:
        groups: by id, those of which the log says anything. They are the live groups.
    """

    def __init__(self, keys: tuple[type, ...], create: Callable[[str], RecordedGroup[Any]]) -> None:
        """Start without records.

        Args:
            keys: the classes of their keys, the first field of which is the id of the group.
            create: makes a group of an id.
        """
        super().__init__(keys)
        self._create = create
        self.groups: dict[str, Any] = {}

    def apply(self, key: Message, value: Message | None) -> None:
        """See `GroupRecords`; a record that its verb has applied is not applied again.

        Otherwise a member that returns under its id would be removed, with its session.
        """
        group_id: str = key.group_id  # type: ignore[attr-defined]  # the first field of each key
        group = self.groups.get(group_id)
        if group is None:
            if value is None:
                return
            group = self.groups[group_id] = self._create(group_id)
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
