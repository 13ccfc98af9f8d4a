"""Reading the answers of a broker: only what the generator has to know.

In a measured stretch that is an error code at a known place: `error_at`, `commit_error_places` and
`fetch_error_places` say where. Everything else here is read a few times during set-up (versions,
coordinator, topic), or once per answered JoinGroup (`read_join`).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from benchmarks.frames import COMPACT, Spoken
from coterie.protocol.errors import ErrorCode

NONE = 0
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
TOPIC_ALREADY_EXISTS = 36
MEMBER_ID_REQUIRED = 79

# A broker that has just started answers these for a moment; asking again is all a client can do.
PASSING = frozenset({COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})

# Every answer begins with its length and its correlation id; a tag section follows in flexible
# versions (not in ApiVersions answers).
_HEADER_SIZE = 8
_THROTTLE_SIZE = 4

_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from


class Refused(Exception):  # noqa: N818 - the name says what happened
    """The broker answered set-up or a scenario's step with an error."""

    def __init__(self, api: str, code: int) -> None:
        super().__init__(f"{api} was answered {error_name(code)}")
        self.code = code


def error_name(code: int) -> str:
    """Name an error code as Kafka does."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def body_at(spoken: Spoken) -> int:
    """Return where an answer's body begins."""
    return _HEADER_SIZE + len(spoken.dialect.tags)


def error_at(spoken: Spoken) -> int:
    """Return where the error code is in an answer of JoinGroup, SyncGroup, Heartbeat, LeaveGroup:
    behind the throttle time.
    """
    return body_at(spoken) + _THROTTLE_SIZE


def commit_error_places(spoken: Spoken) -> tuple[int, ...]:
    """Return where the error code of an OffsetCommit answer of one partition is, from its end."""
    tags = len(spoken.dialect.tags)
    return (-2 - 3 * tags,)  # then the tags of the partition, the topic, and the body


def fetch_error_places(spoken: Spoken) -> tuple[int, ...]:
    """Return where an OffsetFetch answer of one partition has its errors, from its end.

    First the partition's, then, behind the tags of partition and topic, the group's.
    """
    tags = len(spoken.dialect.tags)
    return (-2 - 2 * tags - 2 - tags, -2 - tags)


def fetched_offset(answer: bytes, spoken: Spoken) -> int:
    """Read the offset from an OffsetFetch answer of one partition without commit metadata."""
    behind_error = fetch_error_places(spoken)[0]
    metadata, leader_epoch, offset = len(spoken.dialect.text("")), 4, 8
    start = len(answer) + behind_error - metadata - leader_epoch - offset
    return int.from_bytes(answer[start : start + offset], "big", signed=True)


def first_error(answer: bytes, places: tuple[int, ...]) -> int:
    """Return the first error code of an answer that is not NONE, or NONE."""
    for place in places:
        (code,) = _int16(answer, place if place >= 0 else len(answer) + place)
        if code != NONE:
            return int(code)
    return NONE


class Reader:
    """Walks over the body of an answer."""

    def __init__(self, answer: bytes, spoken: Spoken) -> None:
        self._answer = answer
        self._position = body_at(spoken)
        self._compact = spoken.dialect is COMPACT

    def number(self, layout: str) -> int:
        """Read the first number of a struct layout such as ">h", and skip the others."""
        (value, *_) = struct.unpack_from(layout, self._answer, self._position)
        self._position += struct.calcsize(layout)
        return int(value)

    def uvarint(self) -> int:
        """Read an unsigned varint."""
        value = shift = 0
        while True:
            byte = self._answer[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def count(self) -> int:
        """Read the length of an array; null counts as 0."""
        return max(0, self.uvarint() - 1 if self._compact else self.number(">i"))

    def text(self) -> str:
        """Read a string; null reads as ""."""
        size = max(0, self.uvarint() - 1 if self._compact else self.number(">h"))
        start = self._position
        self._position += size
        return self._answer[start : self._position].decode()

    def blob(self) -> None:
        """Skip bytes; they are counted like an array."""
        size = self.count()
        self._position += size

    def tags(self) -> None:
        """Skip a tag section, where there is one."""
        for _ in range(self.uvarint() if self._compact else 0):
            self.uvarint()
            size = self.uvarint()
            self._position += size


def read_api_versions(answer: bytes) -> dict[int, tuple[int, int]]:
    """Read an ApiVersions v0 answer: api key -> (lowest, highest) version."""
    (code,) = _int16(answer, _HEADER_SIZE)
    if code != NONE:
        raise Refused("ApiVersions", code)
    (keys,) = _int32(answer, _HEADER_SIZE + 2)
    start = _HEADER_SIZE + 6
    rows = struct.iter_unpack(">hhh", answer[start : start + 6 * keys])
    return {key: (low, high) for key, low, high in rows}


def read_find_coordinator(answer: bytes, spoken: Spoken) -> tuple[int, str, int]:
    """Read a FindCoordinator v2-4 answer: (error code, host, port)."""
    reader = Reader(answer, spoken)
    reader.number(">i")
    if spoken.version >= 4:
        reader.count()
        reader.text()  # key
        reader.number(">i")
        host, port = reader.text(), reader.number(">i")
        return reader.number(">h"), host, port
    code = reader.number(">h")
    reader.text()  # error_message
    reader.number(">i")
    return code, reader.text(), reader.number(">i")


def read_create_topic(answer: bytes, spoken: Spoken) -> int:
    """Read a CreateTopics v5 answer for one topic: its error code."""
    reader = Reader(answer, spoken)
    reader.number(">i")
    reader.count()
    reader.text()
    return reader.number(">h")


def read_metadata(answer: bytes, spoken: Spoken) -> bool:
    """Read a Metadata v9 answer for one topic: whether its partition 0 exists and has a leader."""
    reader = Reader(answer, spoken)
    reader.number(">i")
    for _ in range(reader.count()):
        reader.number(">i")
        reader.text()
        reader.number(">i")
        reader.text()  # rack
        reader.tags()
    reader.text()  # cluster_id
    reader.number(">i")
    if reader.count() == 0 or reader.number(">h") != NONE:
        return False
    reader.text()
    reader.number(">?")
    return reader.count() > 0 and reader.number(">h") == NONE


class Joined(NamedTuple):
    """What a member learns from a JoinGroup answer; a follower is told no `members`."""

    generation: int
    leads: bool
    member_id: str
    members: int


def read_join(answer: bytes, spoken: Spoken) -> Joined:
    """Read a JoinGroup v5-9 answer up to the length of its member list."""
    return _read_join_head(Reader(answer, spoken), spoken.version)


def read_member_ids(answer: bytes, spoken: Spoken) -> list[str]:
    """Read the ids of the members that a JoinGroup v5-9 answer lists for the leader."""
    reader = Reader(answer, spoken)
    member_ids = []
    for _ in range(_read_join_head(reader, spoken.version).members):
        member_ids.append(reader.text())
        reader.text()  # group_instance_id
        reader.blob()  # metadata
        reader.tags()
    return member_ids


def _read_join_head(reader: Reader, version: int) -> Joined:
    reader.number(">ih")  # throttle_time_ms, error_code
    generation = reader.number(">i")
    if version >= 7:
        reader.text()  # protocol_type
    reader.text()  # protocol_name
    leader = reader.text()
    if version >= 9:
        reader.number(">?")  # skip_assignment
    member_id = reader.text()
    return Joined(generation, leader == member_id, member_id, reader.count())
