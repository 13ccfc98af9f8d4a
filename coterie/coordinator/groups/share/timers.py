"""The timers of the members of share groups [share-groups/session]."""

from enum import StrEnum


class TimerKind(StrEnum):
    """The kinds of timers. They are strings because timer keys contain them."""

    SESSION = "share session"  # a member's session
