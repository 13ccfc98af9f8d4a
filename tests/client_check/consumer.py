"""A small consumer that keeps to the rules, and can be given flaws, each named by one word.

It joins with range, roundrobin, sticky or cooperative-sticky, commits every five seconds and before
it gives partitions up, follows leader epochs, and leaves at its end unless it is static.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from coterie.address import Address
from coterie.assignors import ASSIGNORS, MemberSubscription, TopicPartition
from coterie.conversation.member import ClassicMember
from coterie.conversation.subscriptions import (
    decoded_assignment,
    encoded_assignment,
    encoded_subscription,
    subscription_of,
)
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coterie.protocol.messages.heartbeat import HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.messages.leave_group import LeaveGroupResponse
from coterie.protocol.messages.sync_group import SyncGroupResponse
from coterie.protocol.wire import Message
from tests.client_check.reading import Reader
from tests.client_check.wire import Link, Lost

R = TypeVar("R", bound=Message)

_SESSION_S = 10
_REBALANCE_S = 60
_COMMIT_S = 5.0
_BACKOFF_S = 0.1
_LOOK_UP = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_FATAL = (
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.FENCED_INSTANCE_ID,
)


class Fatal(Exception):  # noqa: N818 - ends the program
    """An error that repeating does not cure."""


class Consumer(ClassicMember):
    """One member of a group."""

    def __init__(
        self,
        values: dict[str, str],
        printed: Callable[[str], object],
        flaws: Iterable[str] = (),
    ) -> None:
        self.flaws = frozenset(flaws)
        super().__init__(
            values["group"],
            protocols=(values["assignor"],),
            session_ms=_SESSION_S * 1000,
            rebalance_ms=_REBALANCE_S * 1000,
            instance_id=values["instance_id"] or None,
        )
        self.topic = values["topic"]
        self.assignor = values["assignor"]
        self.client_id = values["client_id"]
        self.bootstrap = Address.parse(values["bootstrap"])
        self.owned: set[TopicPartition] = set()
        self.reader = Reader(self, printed)
        self.stopped = asyncio.Event()
        self._rejoin = asyncio.Event()
        self._is_joined = False
        self._links: list[Link] = []
        self._coordinator: Link | None = None
        self._is_cooperative = "cooperative" in self.assignor

    async def run(self) -> int:
        """Consume until `stopped` is set; return the exit code."""
        try:
            return await self._run()
        finally:
            for link in self._links:
                link.close()

    async def _run(self) -> int:
        loops = [self._heartbeats, self.reader.fetches, self._commits, self._joins, self._stop]
        tasks = [asyncio.create_task(each()) for each in loops]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.wait(tasks)
        for each in done:
            error = None if each.cancelled() else each.exception()
            if isinstance(error, Fatal):
                return 1
            if error is not None:
                raise error
        await self._leave()
        return 0

    async def _stop(self) -> None:
        await self.stopped.wait()

    async def _leave(self) -> None:
        with suppress(Lost, TimeoutError):
            await self.commit()
            is_static = self.instance_id is not None and "leaves-as-static" not in self.flaws
            if not self.member_id or is_static or "does-not-leave" in self.flaws:
                return
            link = await self.coordinator()
            request = self.leave_request(link.version(ApiKey.LEAVE_GROUP))
            await link.ask(request, LeaveGroupResponse)

    # --- the coordinator --------------------------------------------------------------------------

    async def coordinator(self) -> Link:
        """Return the connection to the coordinator, which is looked up if it is not known."""
        while self._coordinator is None:
            link = await self.open(self.bootstrap)
            request = FindCoordinatorRequest(key=self.group_id, coordinator_keys=[self.group_id])
            try:
                response = await link.ask(request, FindCoordinatorResponse)
            finally:
                link.close()
            found = response.coordinators[0] if response.coordinators else response
            if found.error_code:
                await asyncio.sleep(_BACKOFF_S)
            else:
                self._coordinator = await self.open(Address(found.host, found.port))
        return self._coordinator

    async def open(self, address: Address) -> Link:
        """Open a connection."""
        link = Link(self.flaws, self.client_id)
        self._links.append(link)
        await link.open(address.host, address.port)
        return link

    def forget_coordinator(self) -> None:
        """Look the coordinator up before the next request."""
        if self._coordinator is not None:
            self._coordinator.close()
        self._coordinator = None

    async def ask_coordinator(self, request: Message, response: type[R]) -> R:
        """Return the response of the coordinator; a lost connection is made again later."""
        try:
            link = await self.coordinator()
            return await link.ask(request, response)
        except Lost:
            self.forget_coordinator()
            raise

    def handle(self, error: int) -> None:
        """Do what an error of the coordinator demands.

        Raises:
            Fatal: nothing can be done.
        """
        if error in _LOOK_UP and "keeps-coordinator" not in self.flaws:
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
        if error == ErrorCode.GROUP_MAX_SIZE_REACHED and "hammers" in self.flaws:
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
                    await self._try_commit()
                self.owned = set()
                if "reads-revoked" not in self.flaws:
                    self.reader.keep(self.owned)
            self._is_joined = False
            with suppress(Lost):
                self._is_joined = await self._join()
            if self._is_joined:
                await self._rejoin.wait()
            else:
                await asyncio.sleep(0 if "hammers" in self.flaws else _BACKOFF_S)

    async def _try_commit(self) -> None:
        with suppress(Lost):
            await self.commit()

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
            await self._try_commit()
            if "keeps-quiet-after-revoking" not in self.flaws:
                self._rejoin.set()
        self.owned = own
        if "reads-revoked" not in self.flaws:
            self.reader.keep(own)
        await self.reader.add(own)

    # --- heartbeats and commits -------------------------------------------------------------------

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

    async def _commits(self) -> None:
        while True:
            await asyncio.sleep(_COMMIT_S)
            while self._is_joined and not self._rejoin.is_set():
                try:
                    if await self.commit():
                        break
                except Lost:
                    pass
                await asyncio.sleep(_BACKOFF_S)

    async def commit(self) -> bool:
        """Commit what was read; return whether nothing is left to commit."""
        return await self.reader.commit()


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
