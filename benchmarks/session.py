"""The part of a measurement that is not measured: versions, coordinator, topic, members, cleaning
up.

`Session.open` asks the broker which versions it serves, waits until it coordinates groups, and
creates the topic that the members subscribe to. `form_group` brings a group of one member to Stable
on a connection; `dissolve` removes the members and groups where the broker keeps running.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import cast

from benchmarks.address import require_loopback
from benchmarks.requests import AgreedApi, Refused, Requests, assignments, first_error
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.messages.find_coordinator import FindCoordinatorResponse
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.messages.metadata import MetadataResponse

TOPIC = "bench"
# How long a broker may answer with one of the errors below, and how often it is tried. A real Kafka
# creates __consumer_offsets at the first FindCoordinator, which takes seconds on a busy machine.
PATIENCE_S = 20.0
RETRY_AFTER_S = 0.05
NOT_READY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
# A response outside the measured time that takes longer means that the broker hangs.
RESPONSE_TIMEOUT_S = 20.0
# Groups in one DeleteGroups: enough to be fast, few enough for every limit of a frame.
DELETE_BATCH = 500


@dataclass(frozen=True, slots=True)
class Job:
    """The work of one generator process.

    Args:
        scenario, row: which measurement, by the keys in `benchmarks.scenarios`.
        host, port, pid: the broker; without a pid its CPU time and memory remain unknown.
        duration_s: length of the measured time, in scenarios that have one.
        settle_s: unmeasured load before it.
        tag: makes the group names of this job unique.
        inflexible: use no flexible versions.
        bare: the broker is the floor, which serves only Heartbeat.
        clean_up: leave and delete all groups at the end, on brokers that keep running.
        quick: use smaller numbers of groups and members.
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
    """Return the name of a job's n-th group; all names of a job have the same length."""
    return f"bench-{job.row}-{job.tag}-{number:05d}"


class Conversation(asyncio.Protocol):
    """One connection on which every request is sent after the previous one was answered."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._received = b""
        self._waiting: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's, but have the same methods.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < 4:
            return
        (size,) = struct.unpack_from(">i", self._received)
        if len(self._received) >= 4 + size and self._waiting is not None:
            frame, self._received = self._received[: 4 + size], self._received[4 + size :]
            waiting, self._waiting = self._waiting, None
            waiting.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("the broker closed the connection"))

    async def exchange(self, frame: bytes) -> bytes:
        """Send one request and return the whole frame of its response."""
        assert self._waiting is None, "one request at a time"
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(frame)
        return await asyncio.wait_for(self._waiting, RESPONSE_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Membership:
    """The only member of a group, in its current generation."""

    group: str
    generation: int
    member_id: str


class Session:
    """The set-up and the clean-up of one job on its broker."""

    def __init__(self, job: Job, requests: Requests, control: Conversation) -> None:
        self.job = job
        self.requests = requests
        self.control = control

    @classmethod
    async def open(cls, job: Job) -> Session:
        """Connect, agree on versions, find the coordinator and create the topic.

        Raises:
            NotLoopback: the address is not on this machine.
            NotServed: the broker lacks an API of the group protocol.
            Refused: the broker answered with an error that does not pass.
        """
        require_loopback(job.host)
        control = await connect(job)
        api_versions = AgreedApi(ApiKey.API_VERSIONS, 0)
        served: ApiVersionsResponse = api_versions.response(
            await control.exchange(api_versions.frame(ApiVersionsRequest()))
        )
        if served.error_code != ErrorCode.NONE:
            raise Refused(ApiKey.API_VERSIONS, served.error_code)
        ranges = {each.api_key: (each.min_version, each.max_version) for each in served.api_keys}
        session = cls(job, Requests(ranges, inflexible=job.inflexible), control)
        await session._find_coordinator()
        await session.create_topic(TOPIC, partitions=1)
        return session

    def group_name(self, number: int) -> str:
        """Return the name of the job's n-th group."""
        return group_name(self.job, number)

    async def _find_coordinator(self) -> None:
        find = self.requests.agreed(ApiKey.FIND_COORDINATOR)
        frame = self.requests.find_coordinator(self.group_name(0))
        deadline = _now() + PATIENCE_S
        while True:
            response: FindCoordinatorResponse = find.response(await self.control.exchange(frame))
            code = first_error(response)
            if code == ErrorCode.NONE:
                break
            if code not in NOT_READY or _now() > deadline:
                raise Refused(ApiKey.FIND_COORDINATOR, code)
            await asyncio.sleep(RETRY_AFTER_S)
        port = coordinator_port(response)
        if port != self.job.port:
            raise ConnectionError(
                f"the coordinator is another node (port {port}): "
                "the benchmark measures clusters of one broker"
            )

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic and wait until it can be used.

        Raises:
            Refused, ConnectionError: it was not created.
        """
        if self.requests.serves(ApiKey.CREATE_TOPICS):
            create = self.requests.agreed(ApiKey.CREATE_TOPICS)
            frame = await self.control.exchange(self.requests.create_topic(topic, partitions))
            code = first_error(create.response(frame))
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise Refused(ApiKey.CREATE_TOPICS, code)
        metadata, agreed = self.requests.metadata(topic), self.requests.agreed(ApiKey.METADATA)
        deadline = _now() + PATIENCE_S
        while not _has_leader(agreed.response(await self.control.exchange(metadata))):
            if _now() > deadline:
                raise ConnectionError(f"the topic {topic!r} did not get a leader")
            await asyncio.sleep(RETRY_AFTER_S)

    async def form_group(self, conversation: Conversation, group: str) -> Membership:
        """Create a group of one member and bring it to Stable."""
        join = self.requests.agreed(ApiKey.JOIN_GROUP)
        member_id = ""
        deadline = _now() + PATIENCE_S
        while True:
            request = self.requests.join_group(group, member_id, TOPIC)
            joined: JoinGroupResponse = join.response(await conversation.exchange(request))
            code = joined.error_code
            if code == ErrorCode.NONE:
                break
            if code == ErrorCode.MEMBER_ID_REQUIRED:
                member_id = joined.member_id
                continue
            if code not in NOT_READY or _now() > deadline:
                raise Refused(ApiKey.JOIN_GROUP, code)
            await asyncio.sleep(RETRY_AFTER_S)
        generation, member_id = joined.generation_id, joined.member_id
        sync = self.requests.sync_group(
            group, generation, member_id, assignments([member_id], TOPIC)
        )
        synced = self.requests.agreed(ApiKey.SYNC_GROUP).response(await conversation.exchange(sync))
        if (code := first_error(synced)) != ErrorCode.NONE:
            raise Refused(ApiKey.SYNC_GROUP, code)
        return Membership(group, generation, member_id)

    async def dissolve(self, memberships: list[tuple[str, str]]) -> None:
        """Let members (group, member id) leave, then delete their groups, if the job says so.

        Errors are ignored: the broker may have removed members and groups already.
        """
        if not self.job.clean_up:
            return
        conversation = await connect(self.job)
        by_group: dict[str, list[str]] = defaultdict(list)
        for group, member_id in memberships:
            by_group[group].append(member_id)
            await conversation.exchange(self.requests.leave_group(group, member_id))
        if self.requests.serves(ApiKey.DELETE_GROUPS):
            groups = list(by_group)
            for start in range(0, len(groups), DELETE_BATCH):
                batch = groups[start : start + DELETE_BATCH]
                await conversation.exchange(self.requests.delete_groups(batch))
        conversation.transport.close()

    def close(self) -> None:
        """Close the control connection."""
        self.control.transport.close()


def coordinator_port(response: FindCoordinatorResponse) -> int:
    """Return the port of the one coordinator in a response, which v4 moved into an array."""
    return response.coordinators[0].port if response.coordinators else response.port


def _has_leader(response: MetadataResponse) -> bool:
    """Return whether all partitions of the one topic exist and have a leader."""
    (topic,) = response.topics or (None,)
    if topic is None or topic.error_code != ErrorCode.NONE or not topic.partitions:
        return False
    return all(each.error_code == ErrorCode.NONE for each in topic.partitions)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def connect(job: Job) -> Conversation:
    """Open another connection to the job's broker."""
    loop = asyncio.get_running_loop()
    _, conversation = await loop.create_connection(Conversation, job.host, job.port)
    return conversation
