"""The timers of share groups and their members [share-groups/session]."""

from enum import StrEnum


class TimerKind(StrEnum):
    """The kinds of timers. They are strings because timer keys contain them."""

    SESSION = "share session"  # a member's session
    TARGET = "share target"  # the next part of the computation of a large target; of the group
