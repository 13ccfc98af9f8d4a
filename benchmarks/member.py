"""A member of a group as a small state machine on a connection of its own: join, sync, rejoin.

Scenarios with many members need thousands of JoinGroups and SyncGroups in milliseconds, so there is
no task and no future here: an answer arrives, the next request goes out in the same callback. What
the scenario has to know it learns through its `Watcher`.

    JoinGroup("") -> MEMBER_ID_REQUIRED -> JoinGroup(id) -> generation -> SyncGroup -> synced

A broker that skips the MEMBER_ID_REQUIRED step is followed as well. REBALANCE_IN_PROGRESS, as an
answer to SyncGroup or Heartbeat, makes a member rejoin, as every client does; any other error ends
the scenario.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from typing import cast

from benchmarks import answers
from benchmarks.answers import MEMBER_ID_REQUIRED, NONE, REBALANCE_IN_PROGRESS, Refused
from benchmarks.frames import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP, Frames
from benchmarks.session import TOPIC, Job

# How many connections are opened at once; a listen backlog is 100 or more everywhere.
CONNECT_BATCH = 50

_int16 = struct.Struct(">h").unpack_from


class Watcher:
    """What a scenario hears of its members. All calls come from the event loop."""

    def named(self, member: Member) -> None:
        """Hear that the broker gave the member its id, with which it has to join again."""
        member.rejoin()

    def leads(self, member: Member, size: int, answer: bytes) -> bytes:
        """Hear that the member leads a generation of `size`; return the assignments it sends.

        `answer` is the JoinGroup answer, with the ids of all members in it.
        """
        raise NotImplementedError

    def synced(self, member: Member) -> None:
        """Hear that the member has its assignment."""
        raise NotImplementedError

    def alive(self, member: Member) -> None:
        """Hear that a heartbeat was answered NONE."""

    def left(self, member: Member) -> None:
        """Hear that the member is out of the group."""

    def failed(self, error: Exception) -> None:
        """Hear that the scenario cannot go on."""
        raise NotImplementedError


class Member(asyncio.Protocol):
    """One member on one connection; it can leave and enter a group as a new member again."""

    def __init__(self, frames: Frames, watcher: Watcher) -> None:
        self._frames = frames
        self._watcher = watcher
        self._join_spoken = frames.spoken(JOIN_GROUP)
        self._join_error_at = answers.error_at(self._join_spoken)
        self._sync_error_at = answers.error_at(frames.spoken(SYNC_GROUP))
        self._heartbeat_error_at = answers.error_at(frames.spoken(HEARTBEAT))
        self._leave_error_at = answers.error_at(frames.spoken(LEAVE_GROUP))
        self._nobody = frames.assignments([], TOPIC)
        self._on_answer: Callable[[bytes, int], None] = self._on_join
        self._error_at = self._join_error_at
        self._partial = b""
        self.transport: asyncio.Transport
        self.group = ""
        self.member_id = ""
        self.generation = -1
        # When the last JoinGroup as a new member, and the last of all, were sent.
        self.entered_at = self.rejoined_at = 0.0
        self._join_frame = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's, but have its methods.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._partial:
            data = self._partial + data
            self._partial = b""
        if len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            self._partial = data
            return
        self._on_answer(data, _int16(data, self._error_at)[0])

    def itself(self) -> Member:
        """Return the member: the protocol factory of its connection."""
        return self

    def connection_lost(self, exc: Exception | None) -> None:
        self._watcher.failed(ConnectionError("the broker closed the connection of a member"))

    # ---- what a scenario lets a member do -------------------------------------------------------

    def enter(self, group: str, first_join: bytes | None = None) -> None:
        """Join a group as a new member; `first_join` is the request if it was built beforehand."""
        self.group, self.member_id, self.generation = group, "", -1
        self._join_frame = first_join or self._frames.join_group(group, "", TOPIC)
        self.rejoin()
        self.entered_at = self.rejoined_at

    def rejoin(self) -> None:
        """Send JoinGroup with the member's id."""
        self._on_answer, self._error_at = self._on_join, self._join_error_at
        self.rejoined_at = time.perf_counter()
        self.transport.write(self._join_frame)

    def heartbeat(self) -> None:
        """Send a heartbeat; REBALANCE_IN_PROGRESS makes the member rejoin."""
        self._on_answer, self._error_at = self._on_heartbeat, self._heartbeat_error_at
        self.transport.write(self._frames.heartbeat(self.group, self.generation, self.member_id))

    def leave(self) -> None:
        """Leave the group."""
        self._on_answer, self._error_at = self._on_leave, self._leave_error_at
        self.transport.write(self._frames.leave_group(self.group, self.member_id))

    # ---- answers --------------------------------------------------------------------------------

    def _on_join(self, answer: bytes, error: int) -> None:
        if error == MEMBER_ID_REQUIRED:
            self._remember(answers.read_join(answer, self._join_spoken).member_id)
            self._watcher.named(self)
            return
        if error != NONE:
            self._watcher.failed(Refused("JoinGroup", error))
            return
        joined = answers.read_join(answer, self._join_spoken)
        if not self.member_id:
            self._remember(joined.member_id)
        self.generation = joined.generation
        plan = self._nobody
        if joined.leads:
            plan = self._watcher.leads(self, joined.members, answer)
        self._on_answer, self._error_at = self._on_sync, self._sync_error_at
        self.transport.write(
            self._frames.sync_group(self.group, self.generation, self.member_id, plan)
        )

    def _remember(self, member_id: str) -> None:
        self.member_id = member_id
        self._join_frame = self._frames.join_group(self.group, member_id, TOPIC)

    def _on_sync(self, answer: bytes, error: int) -> None:
        if error == NONE:
            self._watcher.synced(self)
        elif error == REBALANCE_IN_PROGRESS:
            self.rejoin()
        else:
            self._watcher.failed(Refused("SyncGroup", error))

    def _on_heartbeat(self, answer: bytes, error: int) -> None:
        if error == NONE:
            self._watcher.alive(self)
        elif error == REBALANCE_IN_PROGRESS:
            self.rejoin()
        else:
            self._watcher.failed(Refused("Heartbeat", error))

    def _on_leave(self, answer: bytes, error: int) -> None:
        if error == NONE:
            self._watcher.left(self)
        else:
            self._watcher.failed(Refused("LeaveGroup", error))


async def connect_members(job: Job, frames: Frames, watcher: Watcher, number: int) -> list[Member]:
    """Open the connections of so many members that report to one watcher."""
    loop = asyncio.get_running_loop()
    members = [Member(frames, watcher) for _ in range(number)]
    for start in range(0, number, CONNECT_BATCH):
        batch = members[start : start + CONNECT_BATCH]
        await asyncio.gather(
            *(loop.create_connection(member.itself, job.host, job.port) for member in batch)
        )
    return members
