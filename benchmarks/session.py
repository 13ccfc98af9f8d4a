"""Everything before and after a measured stretch: versions, coordinator, topic, groups.

Nothing here is measured, so it is written for reading: one request, one awaited answer
(`Conversation`). A `Session` belongs to one job in one generator process.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import cast

from benchmarks import answers, frames
from benchmarks.address import require_loopback
from benchmarks.answers import NONE, PASSING, Refused, first_error
from benchmarks.frames import Frames

TOPIC = "bench"
# How long a broker may answer "not yet" (a real Kafka creates __consumer_offsets at the first
# FindCoordinator, which takes seconds on a busy machine), and how often it is asked.
PATIENCE_S = 20.0
ASK_AGAIN_S = 0.05
# An answer of set-up or tear-down that takes longer means that the broker hangs.
ANSWER_TIMEOUT_S = 20.0
# Groups named in one DeleteGroups; large enough to be quick, small enough for every frame limit.
DELETE_BATCH = 500


@dataclass(frozen=True, slots=True)
class Job:
    """What one generator process is told to do.

    Args:
        scenario, row: which measurement, as `benchmarks.scenarios` names it.
        host, port, pid: the broker; without a pid its CPU time and memory stay unknown.
        duration_s: length of the measured stretch, where the scenario is one of duration.
        settle_s: unmeasured load before it.
        tag: makes group names of this job its own.
        inflexible: speak no flexible versions of the group and offset APIs.
        bare: the broker is the floor, which knows Heartbeat and nothing else.
        clean_up: leave and delete all groups at the end (for brokers that live on).
        quick: smaller numbers of groups and members.
    """

    scenario: str
    row: str
    host: str
    port: int
    pid: int | None = None
    duration_s: float = 3.0
    settle_s: float = 0.3
    tag: str = "0"
    inflexible: bool = False
    bare: bool = False
    clean_up: bool = False
    quick: bool = False

    def as_dict(self) -> dict[str, object]:
        """Return the job as plain data, for the generator's standard input."""
        return asdict(self)


def group_name(job: Job, number: int) -> str:
    """Name the n-th group of a job."""
    return f"bench-{job.row}-{job.tag}-{number:05d}"


class Conversation(asyncio.Protocol):
    """One connection on which each request is sent after the last one was answered."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._received = b""
        self._waiting: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's, but have its methods.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < 4:
            return
        (size,) = struct.unpack_from(">i", self._received)
        if len(self._received) >= 4 + size and self._waiting is not None:
            answer, self._received = self._received[: 4 + size], self._received[4 + size :]
            waiting, self._waiting = self._waiting, None
            waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("the broker closed the connection"))

    async def ask(self, frame: bytes) -> bytes:
        """Send one request and return the whole frame of its answer."""
        assert self._waiting is None, "one request at a time"
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(frame)
        return await asyncio.wait_for(self._waiting, ANSWER_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Membership:
    """The only member of a group, in its current generation."""

    group: str
    generation: int
    member_id: str


class Session:
    """One job's dealings with its broker."""

    def __init__(self, job: Job, spoken: Frames, control: Conversation) -> None:
        self.job = job
        self.frames = spoken
        self.control = control

    @classmethod
    async def open(cls, job: Job) -> Session:
        """Connect, agree on versions, find the coordinator and have the topic created.

        Raises:
            NotLoopback: the address is not on this machine.
            NotServed: the broker lacks an API of the group protocol.
            Refused: the broker answered an error that does not pass.
        """
        require_loopback(job.host)
        control = await connect(job)
        served = answers.read_api_versions(await control.ask(frames.api_versions()))
        session = cls(job, Frames(served, inflexible=job.inflexible), control)
        await session._find_coordinator()
        await session._create_topic()
        return session

    def group_name(self, number: int) -> str:
        """Name the job's n-th group; all names of a job have the same length."""
        return group_name(self.job, number)

    async def _find_coordinator(self) -> None:
        spoken = self.frames.spoken(frames.FIND_COORDINATOR)
        frame = self.frames.find_coordinator(self.group_name(0))
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            code, _, port = answers.read_find_coordinator(await self.control.ask(frame), spoken)
            if code == NONE:
                break
            if code not in PASSING or asyncio.get_running_loop().time() > deadline:
                raise Refused("FindCoordinator", code)
            await asyncio.sleep(ASK_AGAIN_S)
        if port != self.job.port:
            raise ConnectionError(
                f"the coordinator is another node (port {port}): the benchmark wants one broker"
            )

    async def _create_topic(self) -> None:
        if self.frames.serves(frames.CREATE_TOPICS):
            answer = await self.control.ask(self.frames.create_topic(TOPIC, partitions=1))
            code = answers.read_create_topic(answer, self.frames.spoken(frames.CREATE_TOPICS))
            if code not in (NONE, answers.TOPIC_ALREADY_EXISTS):
                raise Refused("CreateTopics", code)
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        metadata, spoken = self.frames.metadata(TOPIC), self.frames.spoken(frames.METADATA)
        while not answers.read_metadata(await self.control.ask(metadata), spoken):
            if asyncio.get_running_loop().time() > deadline:
                raise ConnectionError(f"the topic {TOPIC!r} did not get a leader")
            await asyncio.sleep(ASK_AGAIN_S)

    async def form_group(self, conversation: Conversation, group: str) -> Membership:
        """Make a group of one member and bring it to Stable."""
        spoken = self.frames.spoken(frames.JOIN_GROUP)
        places = (answers.error_at(spoken),)
        member_id = ""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            join = self.frames.join_group(group, member_id, TOPIC)
            answer = await conversation.ask(join)
            code = first_error(answer, places)
            if code == NONE:
                break
            if code == answers.MEMBER_ID_REQUIRED:
                member_id = answers.read_join(answer, spoken).member_id
                continue
            if code not in PASSING or asyncio.get_running_loop().time() > deadline:
                raise Refused("JoinGroup", code)
            await asyncio.sleep(ASK_AGAIN_S)
        joined = answers.read_join(answer, spoken)
        plan = self.frames.assignments([joined.member_id], TOPIC)
        sync = self.frames.sync_group(group, joined.generation, joined.member_id, plan)
        places = (answers.error_at(self.frames.spoken(frames.SYNC_GROUP)),)
        code = first_error(await conversation.ask(sync), places)
        if code != NONE:
            raise Refused("SyncGroup", code)
        return Membership(group, joined.generation, joined.member_id)

    async def dissolve(self, memberships: list[tuple[str, str]]) -> None:
        """Let members (group, member id) leave, then delete their groups, if the job asks for it.

        Errors are passed over: this is tidying on a broker that may have gone on already.
        """
        if not self.job.clean_up:
            return
        conversation = await connect(self.job)
        by_group: dict[str, list[str]] = defaultdict(list)
        for group, member_id in memberships:
            by_group[group].append(member_id)
            await conversation.ask(self.frames.leave_group(group, member_id))
        if self.frames.serves(frames.DELETE_GROUPS):
            groups = list(by_group)
            for start in range(0, len(groups), DELETE_BATCH):
                batch = groups[start : start + DELETE_BATCH]
                await conversation.ask(self.frames.delete_groups(batch))
        conversation.transport.close()

    def close(self) -> None:
        """Close the control connection."""
        self.control.transport.close()


async def connect(job: Job) -> Conversation:
    """Open one more connection to the job's broker."""
    loop = asyncio.get_running_loop()
    _, conversation = await loop.create_connection(Conversation, job.host, job.port)
    return conversation
