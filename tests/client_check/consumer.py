"""A small consumer that keeps to the rules, and can be given flaws, each named by one word.

It joins with range, roundrobin, sticky or cooperative-sticky, commits every five seconds and before
it gives partitions up, follows leader epochs, and leaves at its end unless it is static.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.model import MemberSubscription, TopicPartition
from coterie.conversation.member import ClassicMember
from coterie.conversation.subscriptions import (
    decoded_assignment,
    encoded_assignment,
    encoded_subscription,
    subscription_of,
)
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.messages.leave_group import LeaveGroupResponse
from coterie.protocol.messages.sync_group import SyncGroupResponse
from tests.client_check.program import BACKOFF_S, LOOK_UP, Fatal, Program
from tests.client_check.wire import Lost

_SESSION_S = 10
_REBALANCE_S = 60
_FATAL = (
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.FENCED_INSTANCE_ID,
)
_ABOUT_THE_GROUP = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_MAX_SIZE_REACHED)


class Consumer(ClassicMember, Program):
    """One member of a group."""

    def __init__(
        self,
        values: dict[str, str],
        printed: Callable[[str], object],
        flaws: Iterable[str] = (),
    ) -> None:
        ClassicMember.__init__(
            self,
            values["group"],
            protocols=(values["assignor"],),
            session_ms=_SESSION_S * 1000,
            rebalance_ms=_REBALANCE_S * 1000,
            instance_id=values["instance_id"] or None,
        )
        Program.__init__(self, values, printed, flaws)
        self.assignor = values["assignor"]
        self.owned: set[TopicPartition] = set()
        self._rejoin = asyncio.Event()
        self._is_joined = False
        self._is_cooperative = "cooperative" in self.assignor

    def loops(self) -> list[Callable[[], Coroutine[None, None, None]]]:
        """Return what a member does."""
        return [self._heartbeats, self._joins]

    async def leave(self) -> None:
        """Send LeaveGroup, unless it is a static member."""
        is_static = self.instance_id is not None and "leaves-as-static" not in self.flaws
        if not self.member_id or is_static or "does-not-leave" in self.flaws:
            return
        link = await self.coordinator()
        request = self.leave_request(link.version(ApiKey.LEAVE_GROUP))
        await link.ask(request, LeaveGroupResponse)

    @property
    def may_commit(self) -> bool:
        """Whether it is in a generation."""
        return self._is_joined and not self._rejoin.is_set()

    def handle(self, error: int) -> None:
        """Do what an error of the coordinator demands.

        Raises:
            Fatal: nothing can be done.
        """
        if error in LOOK_UP and "keeps-coordinator" not in self.flaws:
            self.forget_coordinator()
        elif error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget_id()
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            if "ignores-rebalance" not in self.flaws:
                self._rejoin.set()
        elif error == ErrorCode.ILLEGAL_GENERATION:
            self._rejoin.set()
        elif error in _FATAL:
            self._fail(error)

    def _fail(self, error: int) -> None:
        """End the program, unless a flaw lets it go on."""
        if error in _ABOUT_THE_GROUP and "hammers" in self.flaws:
            return
        if error == ErrorCode.FENCED_INSTANCE_ID:
            if "rejoins-when-fenced" in self.flaws:
                self._rejoin.set()
                return
            if "commits-when-fenced" in self.flaws:
                return
        raise Fatal(ErrorCode(error).name)

    def _forget_id(self) -> None:
        if "keeps-unknown-id" in self.flaws and self._is_joined:
            self._rejoin.set()
            return
        self.member_id = ""
        self.generation_id = -1
        self.owned = set()
        self.reader.keep(self.owned)
        self._rejoin.set()

    # --- joining ----------------------------------------------------------------------------------

    async def _joins(self) -> None:
        """Join the group, and again whenever it is necessary."""
        while True:
            self._rejoin.clear()
            if self._is_joined and not self._is_cooperative:
                if "gives-up-uncommitted" not in self.flaws:
                    await self.try_commit()
                self.owned = set()
                if "reads-revoked" not in self.flaws:
                    self.reader.keep(self.owned)
            self._is_joined = False
            with suppress(Lost):
                self._is_joined = await self._join()
            if self._is_joined:
                await self._rejoin.wait()
            else:
                await asyncio.sleep(0 if "hammers" in self.flaws else BACKOFF_S)

    async def _join(self) -> bool:
        """Join one generation; return whether it was reached."""
        response = await self._ask_join()
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            if "forgets-given-id" in self.flaws:
                await self._ask_join()
            self.take_join(response)
            response = await self._ask_join()
        if response.error_code:
            self.handle(response.error_code)
            return False
        self.take_join(response)
        assignments = await self._assign(response) if self.leads else {}
        link = await self.coordinator()
        request = self.sync_request(assignments, link.version(ApiKey.SYNC_GROUP))
        synced = await self.ask_coordinator(request, SyncGroupResponse)
        if synced.error_code:
            self.handle(synced.error_code)
            return False
        await self._take(set(decoded_assignment(synced.assignment)))
        return True

    async def _ask_join(self) -> JoinGroupResponse:
        link = await self.coordinator()
        request = self.join_request(link.version(ApiKey.JOIN_GROUP))
        return await self.ask_coordinator(request, JoinGroupResponse)

    def metadata(self, protocol: str) -> bytes:
        """Return its subscription."""
        return encoded_subscription([self.topic], sorted(self.owned), self.generation_id)

    async def _assign(self, response: JoinGroupResponse) -> dict[str, bytes]:
        members = [subscription_of(each) for each in response.members]
        counts = await self.reader.counts({topic for each in members for topic in each.topics})
        name = self.assignor
        if "hands-over-at-once" in self.flaws and self._is_cooperative:
            name = "range"
        made = ASSIGNORS[name](counts, members)
        if len(members) > 1:
            _spoil(made, members, self.flaws)
        return {member: encoded_assignment(own, 0) for member, own in made.items()}

    async def _take(self, own: set[TopicPartition]) -> None:
        """Take the partitions of a generation."""
        revoked = self.owned - own
        if self._is_cooperative and revoked:
            await self.try_commit()
            if "keeps-quiet-after-revoking" not in self.flaws:
                self._rejoin.set()
        self.owned = own
        if "reads-revoked" not in self.flaws:
            self.reader.keep(own)
        await self.reader.add(own)

    # --- heartbeats -------------------------------------------------------------------------------

    async def _heartbeats(self) -> None:
        interval_s = _SESSION_S * 0.8 if "slow-heartbeats" in self.flaws else 1.0
        while True:
            await asyncio.sleep(interval_s)
            if not self._is_joined or self._rejoin.is_set():
                continue
            if "silent-while-processing" in self.flaws and self.reader.is_processing:
                continue
            with suppress(Lost):
                link = await self.coordinator()
                request = self.heartbeat_request(link.version(ApiKey.HEARTBEAT))
                response = await self.ask_coordinator(request, HeartbeatResponse)
                self.handle(response.error_code)


def _spoil(
    made: dict[str, list[TopicPartition]],
    members: list[MemberSubscription],
    flaws: frozenset[str],
) -> None:
    """Change an assignment as a flaw demands."""
    first, last = members[0].member_id, members[-1].member_id
    if "forgets-a-partition" in flaws:
        made[max(made, key=lambda each: len(made[each]))].pop()
    if "assigns-twice" in flaws:
        made[last] = [*made.get(last, []), made[first][0]]
    if "assigns-all-to-itself" in flaws:
        everything = [partition for own in made.values() for partition in own]
        for member in made:
            made[member] = []
        made[first] = everything
    if "leaves-foreign-topics" in flaws:
        own_topics = members[0].topics
        for member, own in made.items():
            made[member] = [each for each in own if each.topic in own_topics]
