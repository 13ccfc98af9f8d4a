"""The sessions of a group's members, from joining to leaving [pipeline/member-sessions]."""

from collections.abc import Iterable

from coterie.pipeline.timeline.model import MemberSession, RecordedMember

JOINED = "join"
RESTARTED = "static restart"
RESTARTED_FREELY = "static restart without rebalance"
REPLACED = "replaced"


class Sessions:
    """The sessions of one group's members."""

    def __init__(self, group_id: str) -> None:
        """Begin without members."""
        self._group_id = group_id
        self._open: dict[str, MemberSession] = {}
        self._ended: list[MemberSession] = []
        # By key the place of its last session in `_ended`.
        self._last: dict[str, int] = {}

    def resume(self, sessions: Iterable[MemberSession]) -> None:
        """Continue with open sessions of an earlier history."""
        self._open = {session.member_key: session for session in sessions}

    def joined(self, member: RecordedMember, at_ms: int, entry_kind: str = JOINED) -> None:
        """Begin the session of a member."""
        self._open[member.key] = MemberSession(
            self._group_id,
            member.key,
            member.member_id,
            member.client_id,
            member.client_host,
            at_ms,
            None,
            entry_kind,
            None,
            None,
            None,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            0,
        )

    def seen(self, member: RecordedMember, at_ms: int) -> bool:
        """Begin the session of a member of a generation, unless it has begun already.

        Returns:
            Whether a static member has another member id than before: it was restarted.
        """
        known = self._open.get(member.key)
        if known is None:
            self.joined(member, at_ms)
            return False
        if known.member_id == member.member_id:
            return False
        self.replaced(member, at_ms, rebalances=True)
        return True

    def caused(self, key: str) -> None:
        """Count a rebalance that a member caused, who may have just left."""
        session = self._newest(key)
        if session is not None:
            caused = (session.rebalances_caused or 0) + 1
            self._put(key, session._replace(rebalances_caused=caused))

    def may_have_caused(self, keys: Iterable[str]) -> None:
        """Note that one of several members caused a rebalance [pipeline/member-sessions]."""
        for key in keys:
            session = self._newest(key)
            if session is not None and not session.rebalances_caused:
                self._put(key, session._replace(rebalances_caused=None))

    def left(
        self,
        key: str,
        at_ms: int,
        exit_kind: str,
        evidence: str | None = None,
        silent_ms: int | None = None,
    ) -> None:
        """End the session of a member, if there is one."""
        session = self._open.pop(key, None)
        if session is not None:
            self._last[key] = len(self._ended)
            self._ended.append(
                session._replace(
                    last_seen_ms=at_ms,
                    exit_kind=exit_kind,
                    exit_evidence=evidence,
                    silent_ms=silent_ms,
                )
            )

    def replaced(self, member: RecordedMember, at_ms: int, *, rebalances: bool) -> None:
        """End the session of a static member and begin that of the process that replaces it."""
        self.left(member.key, at_ms, REPLACED)
        self.joined(member, at_ms, RESTARTED if rebalances else RESTARTED_FREELY)

    def returned(self, member: RecordedMember, at_ms: int) -> None:
        """Turn the exit of a static member and its return at once into a restart."""
        index = self._last[member.key]
        self._ended[index] = self._ended[index]._replace(exit_kind=REPLACED, exit_evidence=None)
        self.joined(member, at_ms, RESTARTED_FREELY)

    def converted(self, key: str, open_kind: str, exit_kind: str) -> None:
        """Say how a session ended that was of this open kind: its group has changed its type."""
        index = self._last.get(key)
        if index is not None and self._ended[index].exit_kind == open_kind:
            self._ended[index] = self._ended[index]._replace(exit_kind=exit_kind)

    def all(self) -> list[MemberSession]:
        """Return every session, by its beginning."""
        return sorted(
            [*self._ended, *self._open.values()], key=lambda session: session.first_seen_ms
        )

    def _newest(self, key: str) -> MemberSession | None:
        """Return the open session of a member, or else its last one."""
        if key in self._open:
            return self._open[key]
        return self._ended[self._last[key]] if key in self._last else None

    def _put(self, key: str, session: MemberSession) -> None:
        if key in self._open:
            self._open[key] = session
        else:
            self._ended[self._last[key]] = session
