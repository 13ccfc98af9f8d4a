"""The timers of classic groups [sessions/timers]."""

from enum import StrEnum


class TimerKind(StrEnum):
    """The kinds of timers. They are strings because timer keys contain them."""

    PENDING = "pending"  # a pending member that has not joined yet
    SESSION = "session"  # a member's session; five minutes for a new member
    JOIN = "join"  # the join phase: initial delay or rebalance timeout
    SYNC = "sync"  # the time in which the members of a generation have to sync
