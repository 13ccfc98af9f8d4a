"""One member of a classic group."""

from typing import Any

from coterie.coordinator.groups.group_like import SeenMember
from coterie.coordinator.groups.sessions import SessionMember

# The protocols of a member in its order of preference: (name, metadata).
Protocols = tuple[tuple[str, bytes], ...]


class Member(SessionMember):
    """One member of a classic group.

    Attributes:
        client_id, client_host: of the process that joined first under this place in the group.
        assignment: the bytes that the leader assigned; empty before.
        delayed_join, delayed_sync: the reply address of a delayed request, or None.
        is_new: whether it has not yet had a response to its JoinGroup, so that it cannot heartbeat.
        joined_ms: when its latest JoinGroup was delayed; 0 after a load.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "delayed_join",
        "delayed_sync",
        "group_instance_id",
        "is_new",
        "joined_ms",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        """Create a member without assignment, delayed requests and session."""
        super().__init__(member_id)
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.delayed_join: Any = None
        self.delayed_sync: Any = None
        self.is_new = False
        self.joined_ms = 0

    def last_heard_ms(self) -> int:
        """Return when its session was last started: by a request, a response or a load."""
        if self.is_new:
            return self.joined_ms
        return max(self.deadline_ms - self.session_timeout_ms, self.joined_ms)

    def seen(self) -> SeenMember:
        """Return the member as people see it."""
        waits_for = "JoinGroup" if self.delayed_join is not None else None
        return SeenMember(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.protocols[0][1] if self.protocols else None,
            self.assignment,
            "SyncGroup" if self.delayed_sync is not None else waits_for,
            self.last_heard_ms(),
            self.session_timeout_ms,
        )

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for a protocol that it supports."""
        metadata = self.metadata_or_none(protocol_name)
        assert metadata is not None, f"member {self.member_id} does not support {protocol_name}"
        return metadata

    def metadata_or_none(self, protocol_name: str) -> bytes | None:
        """Return the member's metadata for a protocol; None if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return None

    def vote(self, candidates: set[str]) -> str:
        """Return the first of the member's protocols that is among the candidates."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"member {self.member_id} supports none of {candidates}")

    def take_delayed_sync(self) -> Any:
        """Return the reply address of the delayed sync, or None, and forget it."""
        to, self.delayed_sync = self.delayed_sync, None
        return to
