"""The timers of streams groups and their members [streams-groups/timers]."""

from enum import StrEnum


class TimerKind(StrEnum):
    """The kinds of timers. They are strings because timer keys contain them."""

    SESSION = "streams session"  # a member's session
    REVOCATION = "streams revocation"  # how long a member may take to give tasks up
    DELAY = "streams delay"  # of the group: the initial rebalance delay
    TARGET = "streams target"  # of the group: the next part of a large target
