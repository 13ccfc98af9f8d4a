"""The groups of one partition, as the verbs see them.

This is the leaf below all verbs: a verb reads and changes groups through it and knows nothing of
the shard around it, which loads the partition, keeps the order of its operations and fires timers.
"""

from collections.abc import Callable

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.effects import ABSENT, Effects
from coterie.coordinator.group import Group
from coterie.coordinator.replay import LoggedState


class PartitionState:
    """The groups of one `__consumer_offsets` partition.

    Attributes:
        config: the coordinator's settings.
        new_uuid: returns a fresh random UUID as text, for member ids.
        groups: the live groups by id.
        logged: what the records of the partition add up to.

    Invariant: `groups` has a group for every group id in `logged`.
    """

    def __init__(self, config: GroupConfig, new_uuid: Callable[[], str], max_groups: int) -> None:
        """Start without groups; `max_groups` bounds their number."""
        self.config = config
        self.new_uuid = new_uuid
        self.groups: dict[str, Group] = {}
        self.logged = LoggedState()
        self._max_groups = max_groups

    def has_room_for_group(self) -> bool:
        """Return whether one more group may be created [coordinator/group-limit]."""
        return len(self.groups) < self._max_groups

    def create_group(self, group_id: str, now_ms: int, effects: Effects | None = None) -> Group:
        """Create an Empty group; with `effects` it is removed if the operation's append fails."""
        group = self.groups[group_id] = Group(group_id, now_ms)
        if effects is not None:
            effects.undo.append((self.groups, group_id, ABSENT))
        return group
