"""Timers: what a coordinator arms and cancels, by key."""

# The kind of a timer, its group, and its member, which is "" if the timer belongs to the group.
TimerKey = tuple[str, str, str]


class Timer:
    """A timer to arm, replacing the one of the same key; without a deadline, one to cancel."""

    __slots__ = ("deadline_ms", "key")

    def __init__(self, key: TimerKey, deadline_ms: int | None) -> None:
        self.key = key
        self.deadline_ms = deadline_ms

    def __repr__(self) -> str:
        return f"Timer({self.key!r}, {self.deadline_ms})"
