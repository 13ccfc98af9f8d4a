"""Bringing a whole group into one generation, and knowing when it is there.

A phase begins with something that makes the group rebalance (members enter, one leaves) and is over
when as many members as expected have synced in one generation of that size. A broker may complete
smaller generations on the way (a first member that comes alone, a rebalance that did not wait for
the newcomer): who has synced in one of those heartbeats until it hears REBALANCE_IN_PROGRESS, and
rejoins, as clients do.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.answers import read_member_ids
from benchmarks.frames import JOIN_GROUP, Frames
from benchmarks.member import Member, Watcher
from benchmarks.session import TOPIC

# Members that wait for the next rebalance ask this often. Clients ask every three seconds; nobody
# wants to wait for that here.
HEARTBEAT_EVERY_S = 0.005
# A thousand members need less than a second; a broker that needs this long has lost somebody.
PHASE_TIMEOUT_S = 6.0


class Assembly(Watcher):
    """The members of one group.

    `members` are those that are to be in the group at the end of the phase.
    """

    def __init__(self, frames: Frames, group: str) -> None:
        self._frames = frames
        self.group = group
        self.members: list[Member] = []
        self.asks_for_id = False
        self.generation = 0
        self.last_sync_at = 0.0
        self._plan = frames.assignments([], TOPIC)
        self._sizes: dict[int, int] = {}
        self._synced: dict[int, int] = {}
        self._finished: asyncio.Future[None] | None = None
        self._unnamed: set[Member] = set()
        self._newcomer: Member | None = None
        self._leaver: Member | None = None
        self._closing = False

    # ---- phases ---------------------------------------------------------------------------------

    async def gather(self) -> None:
        """Let all members enter at once. Whoever has its id waits until the others have theirs."""
        finished = self._begin(newcomer=None, leaver=None)
        self._unnamed = set(self.members)
        for member in self.members:
            member.enter(self.group)
        await self._all_synced(finished)

    async def admit(self, newcomer: Member, leaver: Member | None = None) -> None:
        """Let one member enter and, if given, another leave; the others hear of it by heartbeat.

        With a leaver the others rejoin at once when it has left: the group rebalances then.
        """
        self.members.append(newcomer)
        if leaver is not None:
            self.members.remove(leaver)
        finished = self._begin(newcomer, leaver)
        self._unnamed = {newcomer}
        newcomer.enter(self.group)
        if not self.asks_for_id:
            self._call_others()
        await self._all_synced(finished)

    async def dismiss(self, leaver: Member) -> None:
        """Let one member leave; the others hear of it by heartbeat."""
        self.members.remove(leaver)
        finished = self._begin(newcomer=None, leaver=leaver)
        self._plan_for_all()
        leaver.leave()
        await self._all_synced(finished)

    async def _all_synced(self, finished: asyncio.Future[None]) -> None:
        try:
            await asyncio.wait_for(finished, PHASE_TIMEOUT_S)
        except TimeoutError as error:
            raise TimeoutError(
                f"after {PHASE_TIMEOUT_S:g} s no generation had all {len(self.members)} members"
            ) from error

    def _begin(self, newcomer: Member | None, leaver: Member | None) -> asyncio.Future[None]:
        self._newcomer, self._leaver = newcomer, leaver
        self._sizes.clear()
        self._synced.clear()
        self._finished = asyncio.get_running_loop().create_future()
        return self._finished

    def _call_others(self) -> None:
        if self._newcomer is not None and self._leaver is not None:
            self._leaver.leave()
            return
        for member in self.members:
            if member is not self._newcomer:
                member.heartbeat()

    def _plan_for_all(self) -> None:
        # Built ahead of the leader's SyncGroup, so that the leader's work is not measured.
        member_ids = [member.member_id for member in self.members]
        self._plan = self._frames.assignments(member_ids, TOPIC)

    # ---- what members tell (see Watcher) --------------------------------------------------------

    def named(self, member: Member) -> None:
        self.asks_for_id = True
        self._unnamed.discard(member)
        if self._unnamed:
            return
        self._plan_for_all()
        if member is self._newcomer:
            member.rejoin()
            self._call_others()
            return
        for each in self.members:
            each.rejoin()

    def leads(self, member: Member, size: int, answer: bytes) -> bytes:
        self._sizes[member.generation] = size
        if self.asks_for_id and size == len(self.members):
            return self._plan
        # A generation without somebody, or ids that are told with the generation only.
        member_ids = read_member_ids(answer, self._frames.spoken(JOIN_GROUP))
        return self._frames.assignments(member_ids, TOPIC)

    def synced(self, member: Member) -> None:
        assert self._finished is not None
        generation, expected = member.generation, len(self.members)
        synced = self._synced[generation] = self._synced.get(generation, 0) + 1
        if self._sizes.get(generation) != expected:
            self._heartbeat_later(member)
        elif synced == expected and not self._finished.done():
            self.generation, self.last_sync_at = generation, time.perf_counter()
            self._finished.set_result(None)

    def alive(self, member: Member) -> None:
        self._heartbeat_later(member)

    def _heartbeat_later(self, member: Member) -> None:
        asyncio.get_running_loop().call_later(HEARTBEAT_EVERY_S, self._heartbeat, member)

    def _heartbeat(self, member: Member) -> None:
        if self._finished is not None and not self._finished.done():
            member.heartbeat()

    def left(self, member: Member) -> None:
        if self._newcomer is None:
            self._call_others()
            return
        for each in self.members:
            if each is not self._newcomer:
                each.rejoin()

    def failed(self, error: Exception) -> None:
        if self._finished is not None and not self._finished.done() and not self._closing:
            self._finished.set_exception(error)

    def close(self, members: list[Member]) -> None:
        """Close the connections of members."""
        self._closing = True
        for member in members:
            member.transport.close()
