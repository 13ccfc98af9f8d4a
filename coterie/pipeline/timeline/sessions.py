"""The sessions of a group's members, from joining to leaving [pipeline/member-sessions]."""

from collections.abc import Iterable

from coterie.pipeline.timeline.model import Member, MemberSession

REPLACED = "replaced"


class Sessions:
    """The sessions of one group's members."""

    def __init__(self, group_id: str) -> None:
        """Begin without members."""
        self._group_id = group_id
        self._open: dict[str, MemberSession] = {}
        self._ended: list[MemberSession] = []

    def resume(self, sessions: Iterable[MemberSession]) -> None:
        """Continue with open sessions of an earlier history."""
        self._open = {session.member_key: session for session in sessions}

    def joined(
        self, key: str, member_id: str, client_id: str, client_host: str, at_ms: int
    ) -> None:
        """Begin the session of a member."""
        self._open[key] = MemberSession(
            self._group_id, key, member_id, client_id, client_host, at_ms, None, None, 0
        )

    def seen(self, member: Member, at_ms: int) -> None:
        """Begin the session of a member of a generation, unless it has begun already."""
        if member.key not in self._open:
            self.joined(member.key, member.member_id, member.client_id, member.client_host, at_ms)

    def caused(self, key: str) -> None:
        """Count a rebalance that a member caused, who may have just left."""
        if key in self._open:
            session = self._open[key]
            self._open[key] = session._replace(rebalances_caused=session.rebalances_caused + 1)
            return
        for index in reversed(range(len(self._ended))):
            session = self._ended[index]
            if session.member_key == key:
                caused = session.rebalances_caused + 1
                self._ended[index] = session._replace(rebalances_caused=caused)
                return

    def left(self, key: str, at_ms: int, exit_kind: str) -> None:
        """End the session of a member, if there is one."""
        session = self._open.pop(key, None)
        if session is not None:
            self._ended.append(session._replace(last_seen_ms=at_ms, exit_kind=exit_kind))

    def replaced(
        self, key: str, member_id: str, client_id: str, client_host: str, at_ms: int
    ) -> None:
        """End the session of a static member and begin that of the process that replaces it."""
        self.left(key, at_ms, REPLACED)
        self.joined(key, member_id, client_id, client_host, at_ms)

    def all(self) -> list[MemberSession]:
        """Return every session, by its beginning."""
        return sorted(
            [*self._ended, *self._open.values()], key=lambda session: session.first_seen_ms
        )
