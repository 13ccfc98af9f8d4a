"""Request frames of the load generator, built by hand with `struct`.

The generator must cost less than any server it loads, so it does not use the protocol package:
every request of a steady load is built beforehand and sent again and again, with its correlation id
patched in; what members of rebalancing groups send is glued together from parts made once.

`Frames` picks, for one broker, the best version that both sides have of each API; an API for which
there is none raises `NotServed` with the reason, which ends up in the table as "n/a". The versions
are those of today's clients, and the last inflexible ones for a broker that only reads those.

Layout shared by all: length int32, api key int16, api version int16, correlation id int32, client
id, [tags], body (spec section 1; the bodies are those of section 27).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

CORRELATION_AT = 8
CLIENT_ID = b"bench"
PROTOCOL_TYPE = "consumer"
PROTOCOL_NAME = "range"

# Long enough that nobody expires in a scenario whose members do not heartbeat, short enough that
# what an aborted run leaves behind on a peer is gone a minute later.
SESSION_TIMEOUT_MS = 60_000
REBALANCE_TIMEOUT_MS = 60_000


class NotServed(Exception):  # noqa: N818 - the name says what is wrong
    """The broker serves no version of an API that the generator speaks; the message says which."""


class Api(NamedTuple):
    """An API the generator uses: `wanted` lists the versions it can speak, the best one first."""

    key: int
    name: str
    flexible_from: int
    wanted: tuple[int, ...]


METADATA = Api(3, "Metadata", 9, (9,))
OFFSET_COMMIT = Api(8, "OffsetCommit", 8, (8, 7))
OFFSET_FETCH = Api(9, "OffsetFetch", 6, (7, 6, 5))
FIND_COORDINATOR = Api(10, "FindCoordinator", 3, (4, 3, 2))
JOIN_GROUP = Api(11, "JoinGroup", 6, (9, 7, 6, 5))
HEARTBEAT = Api(12, "Heartbeat", 4, (4, 3))
LEAVE_GROUP = Api(13, "LeaveGroup", 4, (5, 4, 1))
SYNC_GROUP = Api(14, "SyncGroup", 4, (5, 4, 3))
API_VERSIONS = Api(18, "ApiVersions", 3, (0,))
CREATE_TOPICS = Api(19, "CreateTopics", 5, (5,))
DELETE_GROUPS = Api(42, "DeleteGroups", 2, (2,))

GROUP_APIS = (FIND_COORDINATOR, JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP)
_ALWAYS_FLEXIBLE = (METADATA, CREATE_TOPICS, DELETE_GROUPS)


def _uvarint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "big")
    return (value & 0x7F | 0x80).to_bytes(1, "big") + _uvarint(value >> 7)


def _compact_text(value: str) -> bytes:
    raw = value.encode()
    return _uvarint(len(raw) + 1) + raw


def _compact_blob(value: bytes) -> bytes:
    return _uvarint(len(value) + 1) + value


def _compact_count(items: int) -> bytes:
    return _uvarint(items + 1)


def _plain_text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def _plain_blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _plain_count(items: int) -> bytes:
    return struct.pack(">i", items)


class Dialect(NamedTuple):
    """How strings, bytes and arrays are written, and what ends a struct."""

    text: Callable[[str], bytes]
    blob: Callable[[bytes], bytes]
    array: Callable[[int], bytes]
    null_text: bytes
    tags: bytes


COMPACT = Dialect(_compact_text, _compact_blob, _compact_count, b"\x00", b"\x00")
PLAIN = Dialect(_plain_text, _plain_blob, _plain_count, b"\xff\xff", b"")


def with_correlation(frame: bytes, correlation_id: int) -> bytes:
    """Return a copy of a frame that carries this correlation id."""
    copy = bytearray(frame)
    struct.pack_into(">i", copy, CORRELATION_AT, correlation_id)
    return bytes(copy)


def subscription(topic: str) -> bytes:
    """Build the metadata of a member: ConsumerProtocolSubscription v0 of one topic."""
    return struct.pack(">hi", 0, 1) + _plain_text(topic) + struct.pack(">i", -1)


def assignment(topic: str, partition: int) -> bytes:
    """Build what a leader gives a member: ConsumerProtocolAssignment v0 of one partition."""
    return struct.pack(">hi", 0, 1) + _plain_text(topic) + struct.pack(">iii", 1, partition, -1)


class Spoken:
    """One API in the version agreed with a broker: its dialect, and the frame around its bodies."""

    __slots__ = ("_header", "dialect", "version")

    def __init__(self, api: Api, version: int) -> None:
        flexible = version >= api.flexible_from
        self.version = version
        self.dialect = COMPACT if flexible else PLAIN
        header = struct.pack(">hhih", api.key, version, 0, len(CLIENT_ID)) + CLIENT_ID
        self._header = header + self.dialect.tags

    def frame(self, body: bytes) -> bytes:
        """Frame a body: length prefix, request header with correlation id 0, body."""
        return (len(self._header) + len(body)).to_bytes(4, "big") + self._header + body


def api_versions() -> bytes:
    """Build the ApiVersions v0 request, which every broker answers."""
    return Spoken(API_VERSIONS, 0).frame(b"")


def heartbeat(spoken: Spoken, group: str, generation: int, member_id: str) -> bytes:
    """Build a Heartbeat of a dynamic member."""
    text, _, _, null, tags = spoken.dialect
    body = text(group) + generation.to_bytes(4, "big") + text(member_id) + null + tags
    return spoken.frame(body)


class Frames:
    """Builds requests in the versions agreed with one broker.

    Args:
        served: api key -> (lowest, highest) version, as the broker's ApiVersions answer told.
        inflexible: speak no flexible version of the group and offset APIs, whatever was told.
    """

    def __init__(self, served: dict[int, tuple[int, int]], *, inflexible: bool = False) -> None:
        self._served = served
        self._inflexible = inflexible
        self._spoken: dict[Api, Spoken] = {}
        self._join_tails: dict[str, bytes] = {}

    def spoken(self, api: Api) -> Spoken:
        """Return an API in the best version both sides have.

        Raises:
            NotServed: there is none.
        """
        if api not in self._spoken:
            self._spoken[api] = Spoken(api, self._agree(api))
        return self._spoken[api]

    def _agree(self, api: Api) -> int:
        if api.key not in self._served:
            raise NotServed(f"{api.name} is not served")
        low, high = self._served[api.key]
        inflexible = self._inflexible and api not in _ALWAYS_FLEXIBLE
        for version in api.wanted:
            if low <= version <= high and not (inflexible and version >= api.flexible_from):
                return version
        wanted = " or v".join(map(str, api.wanted))
        raise NotServed(f"{api.name} v{wanted} is not served (the broker has v{low}-{high})")

    def serves(self, api: Api) -> bool:
        """Tell whether the broker serves a version of the API that the generator can speak."""
        try:
            self.spoken(api)
        except NotServed:
            return False
        return True

    def agreed(self) -> dict[str, int]:
        """List the versions in use, for the report."""
        apis = (*GROUP_APIS, OFFSET_COMMIT, OFFSET_FETCH)
        return {api.name: self.spoken(api).version for api in apis if self.serves(api)}

    def find_coordinator(self, group: str) -> bytes:
        """Ask who coordinates a group."""
        spoken = self.spoken(FIND_COORDINATOR)
        text, _, count, _, tags = spoken.dialect
        if spoken.version >= 4:
            return spoken.frame(b"\x00" + count(1) + text(group) + tags)
        return spoken.frame(text(group) + b"\x00" + tags)

    def create_topic(self, topic: str, partitions: int) -> bytes:
        """Create one topic with one replica."""
        spoken = self.spoken(CREATE_TOPICS)
        text, _, count, _, tags = spoken.dialect
        entry = text(topic) + struct.pack(">ih", partitions, 1) + count(0) + count(0) + tags
        return spoken.frame(count(1) + entry + struct.pack(">i?", 10_000, False) + tags)

    def metadata(self, topic: str) -> bytes:
        """Ask for one topic, which creates it where that is allowed."""
        spoken = self.spoken(METADATA)
        text, _, count, _, tags = spoken.dialect
        topics = count(1) + text(topic) + tags
        return spoken.frame(topics + struct.pack(">???", True, False, False) + tags)

    def join_group(self, group: str, member_id: str, topic: str) -> bytes:
        """Join with protocol "range" and one topic; `member_id` is "" for the first time."""
        spoken = self.spoken(JOIN_GROUP)
        text, blob, count, null, tags = spoken.dialect
        tail = self._join_tails.get(topic)
        if tail is None:
            protocol = text(PROTOCOL_NAME) + blob(subscription(topic)) + tags
            reason = null if spoken.version >= 8 else b""
            tail = null + text(PROTOCOL_TYPE) + count(1) + protocol + reason + tags
            self._join_tails[topic] = tail
        timeouts = struct.pack(">ii", SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS)
        return spoken.frame(text(group) + timeouts + text(member_id) + tail)

    def assignments(self, member_ids: list[str], topic: str) -> bytes:
        """Build the array a leader sends in SyncGroup: one partition each, in the list's order."""
        text, blob, count, _, tags = self.spoken(SYNC_GROUP).dialect
        entries = [
            text(member_id) + blob(assignment(topic, partition)) + tags
            for partition, member_id in enumerate(member_ids)
        ]
        return count(len(entries)) + b"".join(entries)

    def sync_group(self, group: str, generation: int, member_id: str, assigned: bytes) -> bytes:
        """Build a SyncGroup; `assigned` is what `assignments` made, of nobody for a follower."""
        spoken = self.spoken(SYNC_GROUP)
        text, _, _, null, tags = spoken.dialect
        body = text(group) + generation.to_bytes(4, "big") + text(member_id) + null
        if spoken.version >= 5:
            body += text(PROTOCOL_TYPE) + text(PROTOCOL_NAME)
        return spoken.frame(body + assigned + tags)

    def heartbeat(self, group: str, generation: int, member_id: str) -> bytes:
        """Build a Heartbeat in the agreed version."""
        return heartbeat(self.spoken(HEARTBEAT), group, generation, member_id)

    def leave_group(self, group: str, member_id: str) -> bytes:
        """Let one member leave."""
        spoken = self.spoken(LEAVE_GROUP)
        text, _, count, null, tags = spoken.dialect
        if spoken.version < 3:
            return spoken.frame(text(group) + text(member_id))
        reason = null if spoken.version >= 5 else b""
        return spoken.frame(text(group) + count(1) + text(member_id) + null + reason + tags + tags)

    def delete_groups(self, groups: list[str]) -> bytes:
        """Delete empty groups."""
        spoken = self.spoken(DELETE_GROUPS)
        text, _, count, _, tags = spoken.dialect
        return spoken.frame(count(len(groups)) + b"".join(map(text, groups)) + tags)

    def offset_commit(
        self, group: str, generation: int, member_id: str, topic: str, offset: int
    ) -> bytes:
        """Commit one offset of partition 0, without metadata, as a member of the generation."""
        spoken = self.spoken(OFFSET_COMMIT)
        text, _, count, null, tags = spoken.dialect
        partition = struct.pack(">iqi", 0, offset, -1) + text("") + tags
        topics = count(1) + text(topic) + count(1) + partition + tags
        body = text(group) + generation.to_bytes(4, "big") + text(member_id) + null
        return spoken.frame(body + topics + tags)

    def offset_fetch(self, group: str, topic: str) -> bytes:
        """Fetch the committed offset of partition 0."""
        spoken = self.spoken(OFFSET_FETCH)
        text, _, count, _, tags = spoken.dialect
        topics = count(1) + text(topic) + count(1) + (0).to_bytes(4, "big") + tags
        require_stable = b"\x00" if spoken.version >= 7 else b""
        return spoken.frame(text(group) + topics + require_stable + tags)
