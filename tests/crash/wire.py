"""A few requests of the Kafka protocol, encoded and decoded without the product's code.

The kill test must not depend on the codec under test: what counts as acknowledged is what the bytes
of a response say.
"""

import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

CREATE_TOPICS, OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, SYNC_GROUP = 19, 8, 9, 11, 14
HEARTBEAT, CONSUMER_GROUP_HEARTBEAT = 12, 68
NONE = 0
# To be retried: the coordinator is loading, or not available yet.
LATER = (14, 15, 16)
_TIMEOUT_S = 60.0


class Refused(Exception):  # noqa: N818 - reads better where raised
    """A response with an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error code {code}")
        self.code = code


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _compact(text: str) -> bytes:
    data = text.encode()
    assert len(data) < _ONE_BYTE - 1, "the length fits one byte"
    return bytes([len(data) + 1]) + data


def _compact_array(elements: Iterable[bytes]) -> bytes:
    listed = list(elements)
    assert len(listed) < _ONE_BYTE - 1, "the length fits one byte"
    return bytes([len(listed) + 1]) + b"".join(listed)


# Varints below this have one byte.
_ONE_BYTE = 128
# No compact string or array, and no tagged fields.
_NULL = _NO_TAGS = b"\0"
REBALANCE_MS = 60_000


def subscription(topic: str) -> bytes:
    """Return what a member of the classic protocol says of itself."""
    return struct.pack(">hi", 0, 1) + _string(topic) + struct.pack(">i", -1)


def assignment(topic: str, partitions: int) -> bytes:
    """Return all partitions of a topic as the leader of a classic group gives them."""
    listed = b"".join(struct.pack(">i", each) for each in range(partitions))
    head = struct.pack(">hi", 0, 1) + _string(topic) + struct.pack(">i", partitions)
    return head + listed + struct.pack(">i", -1)


class Assigned(NamedTuple):
    """The answer to a heartbeat of a consumer group.

    Attributes:
        epoch: of the member.
        topic_id: of the topic whose partitions it has; zeros if it has none.
        partitions: None if nothing is said of them.
    """

    epoch: int
    topic_id: bytes
    partitions: frozenset[int] | None


class Connection:
    """A connection with one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self._stream = self._socket.makefile("rb")
        self._correlation_id = 0

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, api_key: int, version: int, body: bytes, tags: bytes = b"") -> bytes:
        """Return the body of the response. Raises OSError when the connection ends.

        Args:
            api_key, version, body: of the request.
            tags: the tagged fields of the header, which only flexible versions have.
        """
        self._correlation_id += 1
        header = struct.pack(">hhi", api_key, version, self._correlation_id) + _string("ledger")
        header += tags
        self._socket.sendall(_bytes(header + body))
        prefix = self._stream.read(4)
        if len(prefix) < 4:
            raise ConnectionError("the connection has ended")
        length = struct.unpack(">i", prefix)[0]
        frame = self._stream.read(length)
        if len(frame) < length:
            raise ConnectionError("the connection has ended within an answer")
        assert struct.unpack_from(">i", frame)[0] == self._correlation_id
        return frame[4 + len(tags) :]

    def create_topic(self, name: str, partitions: int = 1) -> None:
        body = struct.pack(">i", 1) + _string(name) + struct.pack(">ihii", partitions, 1, 0, 0)
        self.ask(CREATE_TOPICS, 2, body + struct.pack(">i?", 10_000, False))

    def commit(self, group: str, topic: str, offset: int, metadata: str) -> None:
        """Commit the offset of partition 0 without being a member. Raises Refused."""
        body = _string(group) + struct.pack(">i", -1) + _string("") + struct.pack(">q", -1)
        body += struct.pack(">i", 1) + _string(topic) + struct.pack(">i", 1)
        body += struct.pack(">iq", 0, offset) + _string(metadata)
        answer = self.ask(OFFSET_COMMIT, 2, body)
        _refuse(struct.unpack(">h", answer[-2:])[0])

    def commit_as_member(
        self, group: str, member_id: str, epoch: int, topic: str, partition: int, offset: int
    ) -> None:
        """Commit the offset of a partition as a member of a group. Raises Refused."""
        each = struct.pack(">iqi", partition, offset, -1) + _compact("") + _NO_TAGS
        topics = _compact(topic) + _compact_array([each]) + _NO_TAGS
        body = _compact(group) + struct.pack(">i", epoch) + _compact(member_id) + _NULL
        answer = self.ask(OFFSET_COMMIT, 9, body + _compact_array([topics]) + _NO_TAGS, _NO_TAGS)
        at = 4 + 1 + len(_compact(topic)) + 1 + 4
        _refuse(struct.unpack_from(">h", answer, at)[0])

    def beat(
        self,
        group: str,
        member_id: str,
        epoch: int,
        topic: str,
        topic_id: bytes,
        owned: Iterable[int],
    ) -> Assigned:
        """Send a heartbeat of a consumer group that says everything. Raises Refused."""
        partitions = [struct.pack(">i", each) for each in sorted(owned)]
        listed = [topic_id + _compact_array(partitions) + _NO_TAGS] if partitions else []
        body = _compact(group) + _compact(member_id) + struct.pack(">i", epoch) + _NULL + _NULL
        body += struct.pack(">i", REBALANCE_MS) + _compact_array([_compact(topic)])
        body += _NULL + _NULL + _compact_array(listed) + _NO_TAGS
        answer = self.ask(CONSUMER_GROUP_HEARTBEAT, 1, body, _NO_TAGS)
        _refuse(struct.unpack_from(">h", answer, 4)[0])
        # Neither a message of an error nor an id of more than 126 bytes.
        at = 4 + 2 + 1
        at += max(answer[at], 1)
        epoch, _, has_assignment = struct.unpack_from(">iib", answer, at)
        at += 9
        if has_assignment < 0:
            return Assigned(epoch, bytes(16), None)
        assert answer[at] <= 2, "there is one topic"
        if answer[at] == 1:
            return Assigned(epoch, bytes(16), frozenset())
        topic_id, count = answer[at + 1 : at + 17], answer[at + 17] - 1
        return Assigned(
            epoch, topic_id, frozenset(struct.unpack_from(f">{count}i", answer, at + 18))
        )

    def classic_beat(self, group: str, generation: int, member_id: str) -> None:
        """Send a heartbeat of a member of the classic protocol. Raises Refused."""
        body = _string(group) + struct.pack(">i", generation) + _string(member_id)
        _refuse(struct.unpack_from(">h", self.ask(HEARTBEAT, 0, body))[0])

    def fetch(self, group: str, topic: str, partition: int = 0) -> int:
        """The committed offset of a partition, -1 where there is none. Raises Refused."""
        body = _string(group) + struct.pack(">i", 1) + _string(topic)
        body += struct.pack(">ii", 1, partition)
        answer = self.ask(OFFSET_FETCH, 1, body)
        _refuse(struct.unpack(">h", answer[-2:])[0])
        at = 4 + 2 + len(topic.encode()) + 4 + 4
        return int(struct.unpack_from(">q", answer, at)[0])

    def join(self, group: str, member_id: str, metadata: bytes = b"") -> tuple[int, str]:
        """Join as the only classic member; return generation and member id. Raises Refused."""
        body = _string(group) + struct.pack(">i", 60_000) + _string(member_id)
        body += _string("consumer") + struct.pack(">i", 1) + _string("range") + _bytes(metadata)
        answer = self.ask(JOIN_GROUP, 0, body)
        code, generation = struct.unpack_from(">hi", answer)
        _refuse(code)
        at = 6
        for _ in range(2):  # the protocol and the leader
            at += 2 + struct.unpack_from(">h", answer, at)[0]
        length = struct.unpack_from(">h", answer, at)[0]
        return generation, answer[at + 2 : at + 2 + length].decode()

    def sync(
        self, group: str, generation: int, member_id: str, given: bytes = b"all of it"
    ) -> None:
        """Give the assignment as the leader. Raises Refused."""
        body = _string(group) + struct.pack(">i", generation) + _string(member_id)
        body += struct.pack(">i", 1) + _string(member_id) + _bytes(given)
        _refuse(struct.unpack_from(">h", self.ask(SYNC_GROUP, 0, body))[0])


def _refuse(code: int) -> None:
    if code != NONE:
        raise Refused(code)
