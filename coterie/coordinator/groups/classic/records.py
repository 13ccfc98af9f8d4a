"""What the records of classic groups add up to: the last logged generation of each."""

from collections.abc import Mapping

from coterie.coordinator.groups.replay import GroupRecords
from coterie.protocol.messages.log_records import GroupMetadataKey, GroupMetadataValue
from coterie.protocol.wire import Message

# Kafka's name of the type.
CLASSIC = "classic"


class ClassicRecords(GroupRecords):
    """The last logged generation of each classic group.

    Attributes:
        generations: by group id.
    """

    def __init__(self) -> None:
        """Start without a generation."""
        super().__init__((GroupMetadataKey,))
        self.generations: dict[str, GroupMetadataValue] = {}

    def apply(self, key: Message, value: Message | None) -> None:
        """See `GroupRecords`."""
        assert type(key) is GroupMetadataKey, key
        if value is None:
            self.generations.pop(key.group, None)
        else:
            assert type(value) is GroupMetadataValue, value
            self.generations[key.group] = value

    def values(self) -> Mapping[str, Message]:
        """See `GroupRecords`."""
        return self.generations
