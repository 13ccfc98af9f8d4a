"""The members of a group from their coming to their going."""

from collections.abc import Iterable

from coterie.pipeline.timeline.model import Member, MemberSession

REPLACED = "replaced"


class Sessions:
    """The sessions of one group's members."""

    def __init__(self, group_id: str) -> None:
        """Nobody has come yet."""
        self._group_id = group_id
        self._here: dict[str, MemberSession] = {}
        self._gone: list[MemberSession] = []

    def go_on(self, sessions: Iterable[MemberSession]) -> None:
        """These are still there."""
        self._here = {session.member_key: session for session in sessions}

    def joined(
        self, key: str, member_id: str, client_id: str, client_host: str, at_ms: int
    ) -> None:
        """A member came."""
        self._here[key] = MemberSession(
            self._group_id, key, member_id, client_id, client_host, at_ms, None, None, 0
        )

    def seen(self, member: Member, at_ms: int) -> None:
        """A member is in a generation; one whose coming is not known came then at the latest."""
        if member.key not in self._here:
            self.joined(member.key, member.member_id, member.client_id, member.client_host, at_ms)

    def caused(self, key: str) -> None:
        """A rebalance was this member's doing; it may just have gone."""
        if key in self._here:
            session = self._here[key]
            self._here[key] = session._replace(rebalances_caused=session.rebalances_caused + 1)
            return
        for index in reversed(range(len(self._gone))):
            session = self._gone[index]
            if session.member_key == key:
                caused = session.rebalances_caused + 1
                self._gone[index] = session._replace(rebalances_caused=caused)
                return

    def left(self, key: str, at_ms: int, exit_kind: str) -> None:
        """A member went."""
        session = self._here.pop(key, None)
        if session is not None:
            self._gone.append(session._replace(last_seen_ms=at_ms, exit_kind=exit_kind))

    def replaced(
        self, key: str, member_id: str, client_id: str, client_host: str, at_ms: int
    ) -> None:
        """Another process goes by the same instance id now."""
        self.left(key, at_ms, REPLACED)
        self.joined(key, member_id, client_id, client_host, at_ms)

    def all(self) -> list[MemberSession]:
        """Every session, by its beginning."""
        return sorted(
            [*self._gone, *self._here.values()], key=lambda session: session.first_seen_ms
        )
