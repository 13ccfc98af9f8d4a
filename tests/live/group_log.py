"""The history of a group in `__consumer_offsets`.

Neither clients nor DescribeGroups show the generation of a classic group; the log does. It is read
with a client library and decoded here (group metadata value versions 0 to 3), so none of our own
code takes part.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from coterie.protocol.topic_names import OFFSETS_TOPIC
from tests.live.records import READ_LIMIT_S, offset_range, read_partition

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2


Partition = tuple[str, int]


@dataclass(frozen=True)
class GroupRecord:
    """A group metadata record.

    Attributes:
        generation: the generation.
        protocol, leader: the assignor and the leader; None without members.
        members: group instance id by member id.
        assignments: the partitions that the leader assigned, by member id.
    """

    generation: int
    protocol: str | None
    leader: str | None
    members: dict[str, str | None]
    assignments: dict[str, set[Partition]]


@dataclass(frozen=True)
class OffsetRecord:
    """A committed offset; None if the record is a tombstone."""

    topic: str
    partition: int
    offset: int | None


class Fields:
    """Reads the fields of a message of a version that is not flexible."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, format_: str) -> int:
        value: int
        (value,) = struct.unpack_from(">" + format_, self.data, self.at)
        self.at += struct.calcsize(">" + format_)
        return value

    def string(self) -> str | None:
        length = self.number("h")
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def bytes(self) -> bytes:
        length = max(self.number("i"), 0)
        self.at += length
        return self.data[self.at - length : self.at]


def decode_group(value: bytes) -> GroupRecord:
    """Decode a group metadata value, version 0 to 3."""
    fields = Fields(value)
    version = fields.number("h")
    assert 0 <= version <= 3, f"group metadata value version {version}"
    fields.string()
    generation = fields.number("i")
    protocol, leader = fields.string(), fields.string()
    if version >= 2:
        fields.number("q")
    members: dict[str, str | None] = {}
    assignments: dict[str, set[Partition]] = {}
    for _ in range(fields.number("i")):
        member_id = fields.string() or ""
        members[member_id] = fields.string() if version >= 3 else None
        fields.string()
        fields.string()
        if version >= 1:
            fields.number("i")
        fields.number("i")
        fields.bytes()
        assignments[member_id] = decode_assignment(fields.bytes())
    assert fields.at == len(value), "bytes are left over"
    return GroupRecord(generation, protocol, leader, members, assignments)


def decode_assignment(assignment: bytes) -> set[Partition]:
    """Decode a consumer protocol assignment: version, topics with partitions, user data."""
    if not assignment:
        return set()
    fields = Fields(assignment)
    fields.number("h")
    owned: set[Partition] = set()
    for _ in range(fields.number("i")):
        topic = fields.string() or ""
        owned |= {(topic, fields.number("i")) for _ in range(fields.number("i"))}
    return owned


def java_hash(text: str) -> int:
    """Return the hash by which Kafka places groups, for text of the Basic Multilingual Plane.

    It is String.hashCode() of Java, made positive as Kafka's Utils.abs does it.
    """
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    if value < 1 << 31:
        return value
    return 0 if value == 1 << 31 else (1 << 32) - value


class GroupLog:
    """Reads a group's partition of `__consumer_offsets`."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.bootstrap = bootstrap
        self.group = group

    def partition(self) -> int:
        """Return the group's partition of the topic."""
        metadata = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(
            OFFSETS_TOPIC, timeout=READ_LIMIT_S
        )
        return java_hash(self.group) % len(metadata.topics[OFFSETS_TOPIC].partitions)

    def _records(self) -> Iterator[tuple[bytes, bytes | None]]:
        partition = self.partition()
        # The end is read once: members that keep committing would move it forever.
        start, end = offset_range(self.bootstrap, OFFSETS_TOPIC, partition)
        if start == end:
            return
        for row in read_partition(self.bootstrap, OFFSETS_TOPIC, partition, end):
            assert row.key is not None, "records of this topic have keys"
            yield row.key, row.value

    def groups(self) -> list[GroupRecord | None]:
        """Return the group's own records, oldest first; None for a tombstone."""
        found: list[GroupRecord | None] = []
        for key, value in self._records():
            fields = Fields(key)
            if fields.number("h") == GROUP_KEY_VERSION and fields.string() == self.group:
                found.append(None if value is None else decode_group(value))
        return found

    def newest(self) -> GroupRecord:
        """Return the group's newest record, which must not be a tombstone."""
        record = self.groups()[-1]
        assert record is not None, f"{self.group} was deleted"
        return record

    def generations(self) -> list[int]:
        """Return the generation of each of the group's records, without tombstones."""
        return [record.generation for record in self.groups() if record is not None]

    def offsets(self) -> list[OffsetRecord]:
        """Return the group's committed offsets, oldest first."""
        found: list[OffsetRecord] = []
        for key, value in self._records():
            fields = Fields(key)
            if fields.number("h") in OFFSET_KEY_VERSIONS and fields.string() == self.group:
                topic, partition = fields.string() or "", fields.number("i")
                # Every value version begins with its number and the offset.
                offset = None if value is None else struct.unpack_from(">hq", value)[1]
                found.append(OffsetRecord(topic, partition, offset))
        return found
