"""What the group coordinator does, counted where it is done; `metrics.py` shows the counts."""

from collections import Counter
from typing import TYPE_CHECKING

from coordinator.effects import Effects
from coterie.server.groups import Groups
from protocol.messages.log_records import OffsetCommitKey

if TYPE_CHECKING:
    from coordinator.service import GroupCoordinator
    from coterie.server.broker import Broker


class CountedGroups(Groups):
    """The group coordinator at work, and a count of what it does.

    Attributes:
        happened: facts by their name, as the journal has them.
        offsets_committed, offsets_deleted: records of offsets that were written, and tombstones.
    """

    def __init__(self, broker: "Broker", coordinator: "GroupCoordinator") -> None:
        super().__init__(broker, coordinator)
        self.happened: Counter[str] = Counter()
        self.offsets_committed = 0
        self.offsets_deleted = 0

    def carry_out(self, effects: Effects) -> None:
        """See `Groups`."""
        for append in effects.appends:
            # Operations on offsets are of one kind: a commit, or what deletes and expires.
            key, value = append.records[0]
            if type(key) is OffsetCommitKey:
                if value is None:
                    self.offsets_deleted += len(append.records)
                else:
                    self.offsets_committed += len(append.records)
        for event in effects.events:
            self.happened[event.name] += 1
        super().carry_out(effects)
