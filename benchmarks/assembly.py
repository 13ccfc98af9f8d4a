"""Bringing a whole group into one generation, and noticing when it is complete.

A phase begins when members enter or one leaves, and is over when as many members as expected have
synced in one generation of that size. On the way a broker may complete smaller generations, for
example one with the first member only. A member that synced in such a generation heartbeats until
the answer is REBALANCE_IN_PROGRESS, and rejoins, as clients do.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.member import Member, Watcher
from benchmarks.requests import Assignments, Requests, assignments
from benchmarks.session import TOPIC
from coterie.protocol.messages.join_group import JoinGroupResponse

# How often members that wait for the next rebalance heartbeat. Clients do so every three seconds,
# which would only prolong the measurement.
HEARTBEAT_EVERY_S = 0.005
# A thousand members need less than a second; a broker that needs this long has lost a member.
PHASE_TIMEOUT_S = 6.0


class Assembly(Watcher):
    """The members of one group.

    `members` are those that are to be in the group at the end of the phase.
    """

    def __init__(self, requests: Requests, group: str) -> None:
        self._requests = requests
        self.group = group
        self.members: list[Member] = []
        self.requires_member_id = False
        self.generation = 0
        self.last_sync_at = 0.0
        self._assignments: Assignments = []
        self._sizes: dict[int, int] = {}
        self._synced: dict[int, int] = {}
        self._finished: asyncio.Future[None] | None = None
        self._unnamed: set[Member] = set()
        self._newcomer: Member | None = None
        self._leaver: Member | None = None
        self._closing = False

    # ---- phases ---------------------------------------------------------------------------------

    async def gather(self) -> None:
        """Let all members enter at once; they join again when every one has its id."""
        finished = self._begin(newcomer=None, leaver=None)
        self._unnamed = set(self.members)
        for member in self.members:
            member.enter(self.group)
        await self._all_synced(finished)

    async def admit(self, newcomer: Member, leaver: Member | None = None) -> None:
        """Let one member enter and, if given, another one leave.

        Without a leaver the other members learn of the rebalance by a heartbeat. With a leaver they
        rejoin as soon as it has left, because the group rebalances then.
        """
        self.members.append(newcomer)
        if leaver is not None:
            self.members.remove(leaver)
        finished = self._begin(newcomer, leaver)
        self._unnamed = {newcomer}
        newcomer.enter(self.group)
        if not self.requires_member_id:
            self._start_others()
        await self._all_synced(finished)

    async def dismiss(self, leaver: Member) -> None:
        """Let one member leave; the others learn of it by a heartbeat."""
        self.members.remove(leaver)
        finished = self._begin(newcomer=None, leaver=leaver)
        self._prepare_assignments()
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

    def _start_others(self) -> None:
        """Let the leaver leave, or the other members heartbeat."""
        if self._newcomer is not None and self._leaver is not None:
            self._leaver.leave()
            return
        for member in self.members:
            if member is not self._newcomer:
                member.heartbeat()

    def _prepare_assignments(self) -> None:
        # Built before the leader needs them, so that the leader's work is not measured.
        self._assignments = assignments((member.member_id for member in self.members), TOPIC)

    # ---- events of the members (see Watcher) ----------------------------------------------------

    def named(self, member: Member) -> None:
        self.requires_member_id = True
        self._unnamed.discard(member)
        if self._unnamed:
            return
        self._prepare_assignments()
        if member is self._newcomer:
            member.rejoin()
            self._start_others()
            return
        for each in self.members:
            each.rejoin()

    def leads(self, member: Member, response: JoinGroupResponse) -> Assignments:
        size = len(response.members)
        self._sizes[member.generation] = size
        if self.requires_member_id and size == len(self.members):
            return self._assignments
        # A member is missing, or the broker assigns ids only together with the generation.
        return assignments((each.member_id for each in response.members), TOPIC)

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
            self._start_others()
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
