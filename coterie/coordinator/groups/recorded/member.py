"""A member of a group that is what its records add up to: its records, and its session."""

from typing import Any

from coterie.coordinator.groups.sessions import SessionMember


class RecordedMember(SessionMember):
    """One member.

    Attributes:
        subscription: what it says of itself, as it is logged; None if the log has nothing.
        current: its current assignment as it is logged; None if the log has none.
        epoch, previous_epoch: of `current`.
        session_ms: how long it may be silent.
        client: who sent its latest heartbeat.
        settings: those of the group at its latest heartbeat.
        answer: the response to a heartbeat that changes nothing; None if it is not known.
    """

    __slots__ = (
        "answer", "client", "current", "epoch", "previous_epoch", "session_ms", "settings",
        "subscription",
    )  # fmt: skip

    def __init__(self, member_id: str) -> None:
        """Create a member without records and without a session."""
        super().__init__(member_id)
        self.subscription: Any = None
        self.current: Any = None
        self.epoch = 0
        self.previous_epoch = -1
        self.session_ms = 0
        self.client: Any = None
        self.settings: Any = None
        self.answer: Any = None

    def set_subscription(self, value: Any) -> None:
        """Take over what the log says of the subscription."""
        raise NotImplementedError

    def set_current(self, value: Any) -> None:
        """Take over what the log says of the current assignment."""
        raise NotImplementedError

    def take_records(self, other: Any) -> None:
        """Take over what the log says of a member that has taken the place of this one."""
        assert other.member_id == self.member_id, f"{other} is another member than {self}"
        if other is not self:
            self.set_subscription(other.subscription)
            self.set_current(other.current)

    @property
    def is_blank(self) -> bool:
        """Whether the log says nothing of it."""
        return self.subscription is None and self.current is None

    @property
    def client_host(self) -> str:
        """The host of its client as Java prints it."""
        host: str = "" if self.subscription is None else self.subscription.client_host
        return host

    def last_heard_ms(self) -> int:
        """Return when its session was last started."""
        assert self.deadline_ms >= self.session_ms or not self.armed_ms, f"{self} has a session"
        return self.deadline_ms - self.session_ms
