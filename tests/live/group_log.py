"""The history of a group as `__consumer_offsets` tells it.

Clients do not show a classic group's generation, and DescribeGroups does not either; the log does,
record by record. It is read with a client library and decoded here by hand (group metadata value
version 0 to 3), with nothing of our own code in between.
"""

import struct
from dataclasses import dataclass

import confluent_kafka

from coterie.protocol.topic_names import OFFSETS_TOPIC
from tests.live.deadlines import eventually

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2
READ_LIMIT_S = 30.0


Partition = tuple[str, int]


@dataclass(frozen=True)
class GroupRecord:
    """One group metadata record: a generation and who was in it."""

    generation: int
    protocol: str | None
    leader: str | None
    members: dict[str, str | None]
    """Member id -> group instance id."""
    assignments: dict[str, set[Partition]]
    """Member id -> what the leader assigned to it."""


@dataclass(frozen=True)
class OffsetRecord:
    """One committed offset; None where the commit was deleted."""

    topic: str
    partition: int
    offset: int | None


class Fields:
    """Reads the fields of a non-flexible message one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, format_: str) -> int:
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
    assert fields.at == len(value), "bytes left over"
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
    """What Kafka places groups by: String.hashCode() of Java (for text of the basic plane) made
    positive as Kafka's Utils.abs does it.
    """
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    if value < 1 << 31:
        return value
    return 0 if value == 1 << 31 else (1 << 32) - value


class GroupLog:
    """Reads the one partition of `__consumer_offsets` that a group's records are in."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.bootstrap = bootstrap
        self.group = group

    def _consumer(self) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"{self.group}-log-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
        )

    def place(self) -> tuple[int, int, int]:
        """The group's partition of the topic, and its start and end offset just now."""
        consumer = self._consumer()
        try:
            topics = consumer.list_topics(OFFSETS_TOPIC, timeout=READ_LIMIT_S).topics
            partition = java_hash(self.group) % len(topics[OFFSETS_TOPIC].partitions)
            at = confluent_kafka.TopicPartition(OFFSETS_TOPIC, partition)
            return (partition, *consumer.get_watermark_offsets(at, timeout=READ_LIMIT_S))
        finally:
            consumer.close()

    def _messages(self) -> list[tuple[bytes, bytes | None]]:
        # The end as it is now: members that go on committing would move it for ever.
        partition, start, end = self.place()
        consumer = self._consumer()
        try:
            consumer.assign([confluent_kafka.TopicPartition(OFFSETS_TOPIC, partition, 0)])
            found: list[tuple[bytes, bytes | None]] = []
            offset = start - 1
            while offset < end - 1:
                message = consumer.poll(READ_LIMIT_S)
                assert message is not None, f"stuck at offset {offset} of {start} to {end}"
                if message.error() is not None:
                    # The end comes early where the last records were compacted away.
                    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                    break
                offset = message.offset()
                found.append((message.key(), message.value()))
            return found
        finally:
            consumer.close()

    def groups(self) -> list[GroupRecord | None]:
        """The group's own records, oldest first; None is a tombstone."""
        found: list[GroupRecord | None] = []
        for key, value in self._messages():
            fields = Fields(key)
            if fields.number("h") == GROUP_KEY_VERSION and fields.string() == self.group:
                found.append(None if value is None else decode_group(value))
        return found

    def generations(self) -> list[int]:
        """The generation of each of its records that is not a tombstone."""
        return [record.generation for record in self.groups() if record is not None]

    def offsets(self) -> list[OffsetRecord]:
        """The group's offset commits, oldest first."""
        found: list[OffsetRecord] = []
        for key, value in self._messages():
            fields = Fields(key)
            if fields.number("h") in OFFSET_KEY_VERSIONS and fields.string() == self.group:
                topic, partition = fields.string() or "", fields.number("i")
                # Every value version starts with its own number and the offset.
                offset = None if value is None else struct.unpack_from(">hq", value)[1]
                found.append(OffsetRecord(topic, partition, offset))
        return found

    def wait_generation(self, generation: int) -> None:
        """Wait until the log tells of a generation."""
        eventually(
            lambda: generation in self.generations(),
            f"generation {generation} of {self.group} in the log",
            told=self.generations,
        )
