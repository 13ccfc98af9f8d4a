"""A member of a group as a small state machine on a connection of its own: join, sync, rejoin.

Scenarios with many members send thousands of JoinGroups and SyncGroups within milliseconds, so
there are no tasks and no futures here: the callback that receives a response sends the next
request. The scenario observes its members through a `Watcher`.

    JoinGroup("") -> MEMBER_ID_REQUIRED -> JoinGroup(id) -> generation -> SyncGroup -> synced

A broker that skips the MEMBER_ID_REQUIRED step works as well. REBALANCE_IN_PROGRESS, as the
response to SyncGroup or Heartbeat, makes a member rejoin, as every client does; any other error
ends the scenario.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

from benchmarks.requests import Assignments, Refused, Requests
from benchmarks.session import TOPIC, Job
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import DECODE_ERRORS, ErrorCode
from coterie.protocol.messages.join_group import JoinGroupResponse

# Connections opened at the same time; listen backlogs are 100 or more everywhere.
CONNECT_BATCH = 50

_LENGTH_BYTES = 4
_NO_ASSIGNMENTS: Assignments = []


class Watcher:
    """Receives the events of a scenario's members. All calls come from the event loop."""

    def named(self, member: Member) -> None:
        """Handle that the broker assigned the member its id; it has to join again with it."""
        member.rejoin()

    def leads(self, member: Member, response: JoinGroupResponse) -> Assignments:
        """Handle that the member leads a generation; return the assignments it is to send."""
        raise NotImplementedError

    def synced(self, member: Member) -> None:
        """Handle that the member received its assignment."""
        raise NotImplementedError

    def alive(self, member: Member) -> None:
        """Handle that a heartbeat was answered NONE."""

    def left(self, member: Member) -> None:
        """Handle that the member has left the group."""

    def failed(self, error: Exception) -> None:
        """Handle that the scenario cannot continue."""
        raise NotImplementedError


class Member(asyncio.Protocol):
    """One member on one connection; after leaving it can join a group as a new member again."""

    def __init__(self, requests: Requests, watcher: Watcher) -> None:
        self._requests = requests
        self._watcher = watcher
        self._join = requests.agreed(ApiKey.JOIN_GROUP)
        self._sync = requests.agreed(ApiKey.SYNC_GROUP)
        self._heartbeat = requests.agreed(ApiKey.HEARTBEAT)
        self._leave = requests.agreed(ApiKey.LEAVE_GROUP)
        self._on_response: Callable[[bytes], None] = self._on_join
        self._partial = b""
        self.transport: asyncio.Transport
        self.group = ""
        self.member_id = ""
        self.generation = -1
        # When the last JoinGroup as a new member, and the last JoinGroup of all, were sent.
        self.entered_at = self.rejoined_at = 0.0
        self._join_frame = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's, but have the same methods.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._partial:
            data = self._partial + data
            self._partial = b""
        if len(data) < _LENGTH_BYTES or len(data) < _LENGTH_BYTES + int.from_bytes(data[:4], "big"):
            self._partial = data
            return
        try:
            self._on_response(data)
        except DECODE_ERRORS as error:
            self._watcher.failed(ConnectionError(f"a response cannot be decoded: {error}"))

    def itself(self) -> Member:
        """Return the member: the protocol factory of its connection."""
        return self

    def connection_lost(self, exc: Exception | None) -> None:
        self._watcher.failed(ConnectionError("the broker closed the connection of a member"))

    # ---- actions --------------------------------------------------------------------------------

    def enter(self, group: str, first_join: bytes | None = None) -> None:
        """Join a group as a new member; `first_join` is the request if it was built beforehand."""
        self.group, self.member_id, self.generation = group, "", -1
        self._join_frame = first_join or self._requests.join_group(group, "", TOPIC)
        self.rejoin()
        self.entered_at = self.rejoined_at

    def rejoin(self) -> None:
        """Send JoinGroup with the member's id."""
        self._on_response = self._on_join
        self.rejoined_at = time.perf_counter()
        self.transport.write(self._join_frame)

    def heartbeat(self) -> None:
        """Send a heartbeat; REBALANCE_IN_PROGRESS makes the member rejoin."""
        self._on_response = self._on_heartbeat
        self.transport.write(self._requests.heartbeat(self.group, self.generation, self.member_id))

    def leave(self) -> None:
        """Leave the group."""
        self._on_response = self._on_leave
        self.transport.write(self._requests.leave_group(self.group, self.member_id))

    # ---- responses ------------------------------------------------------------------------------

    def _on_join(self, frame: bytes) -> None:
        response: JoinGroupResponse = self._join.response(frame)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._set_id(response.member_id)
            self._watcher.named(self)
            return
        if response.error_code != ErrorCode.NONE:
            self._watcher.failed(Refused(ApiKey.JOIN_GROUP, response.error_code))
            return
        if not self.member_id:
            self._set_id(response.member_id)
        self.generation = response.generation_id
        assignments = _NO_ASSIGNMENTS
        if response.leader == response.member_id:
            assignments = self._watcher.leads(self, response)
        self._on_response = self._on_sync
        self.transport.write(
            self._requests.sync_group(self.group, self.generation, self.member_id, assignments)
        )

    def _set_id(self, member_id: str) -> None:
        self.member_id = member_id
        self._join_frame = self._requests.join_group(self.group, member_id, TOPIC)

    def _on_sync(self, frame: bytes) -> None:
        error = self._sync.response(frame).error_code
        if error == ErrorCode.NONE:
            self._watcher.synced(self)
        else:
            self._rejoin_or_fail(ApiKey.SYNC_GROUP, error)

    def _on_heartbeat(self, frame: bytes) -> None:
        error = self._heartbeat.response(frame).error_code
        if error == ErrorCode.NONE:
            self._watcher.alive(self)
        else:
            self._rejoin_or_fail(ApiKey.HEARTBEAT, error)

    def _rejoin_or_fail(self, api: ApiKey, error: int) -> None:
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin()
        else:
            self._watcher.failed(Refused(api, error))

    def _on_leave(self, frame: bytes) -> None:
        error = self._leave.response(frame).error_code
        if error == ErrorCode.NONE:
            self._watcher.left(self)
        else:
            self._watcher.failed(Refused(ApiKey.LEAVE_GROUP, error))


async def connect_members(
    job: Job, requests: Requests, watcher: Watcher, count: int
) -> list[Member]:
    """Open the connections of `count` members that report to one watcher."""
    loop = asyncio.get_running_loop()
    members = [Member(requests, watcher) for _ in range(count)]
    for start in range(0, count, CONNECT_BATCH):
        batch = members[start : start + CONNECT_BATCH]
        await asyncio.gather(
            *(loop.create_connection(member.itself, job.host, job.port) for member in batch)
        )
    return members
