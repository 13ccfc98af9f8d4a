"""A few requests of the Kafka protocol, encoded and decoded without the product's code.

The kill test must not depend on the codec under test: what counts as acknowledged is what the bytes
of a response say.
"""

import socket
import struct

CREATE_TOPICS, OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, SYNC_GROUP = 19, 8, 9, 11, 14
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


class Connection:
    """A connection with one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self._stream = self._socket.makefile("rb")
        self._correlation_id = 0

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, api_key: int, version: int, body: bytes) -> bytes:
        """Return the body of the response. Raises OSError when the connection ends."""
        self._correlation_id += 1
        header = struct.pack(">hhi", api_key, version, self._correlation_id) + _string("ledger")
        self._socket.sendall(_bytes(header + body))
        prefix = self._stream.read(4)
        if len(prefix) < 4:
            raise ConnectionError("the connection has ended")
        length = struct.unpack(">i", prefix)[0]
        frame = self._stream.read(length)
        if len(frame) < length:
            raise ConnectionError("the connection has ended within an answer")
        assert struct.unpack_from(">i", frame)[0] == self._correlation_id
        return frame[4:]

    def create_topic(self, name: str) -> None:
        body = struct.pack(">i", 1) + _string(name) + struct.pack(">ihii", 1, 1, 0, 0)
        self.ask(CREATE_TOPICS, 2, body + struct.pack(">i?", 10_000, False))

    def commit(self, group: str, topic: str, offset: int, metadata: str) -> None:
        """Commit the offset of partition 0 without being a member. Raises Refused."""
        body = _string(group) + struct.pack(">i", -1) + _string("") + struct.pack(">q", -1)
        body += struct.pack(">i", 1) + _string(topic) + struct.pack(">i", 1)
        body += struct.pack(">iq", 0, offset) + _string(metadata)
        answer = self.ask(OFFSET_COMMIT, 2, body)
        _refuse(struct.unpack(">h", answer[-2:])[0])

    def fetch(self, group: str, topic: str) -> int:
        """The committed offset of partition 0, -1 where there is none. Raises Refused."""
        body = _string(group) + struct.pack(">i", 1) + _string(topic) + struct.pack(">ii", 1, 0)
        answer = self.ask(OFFSET_FETCH, 1, body)
        _refuse(struct.unpack(">h", answer[-2:])[0])
        at = 4 + 2 + len(topic.encode()) + 4 + 4
        return int(struct.unpack_from(">q", answer, at)[0])

    def join(self, group: str, member_id: str) -> tuple[int, str]:
        """Join as the only member; return generation and member id. Raises Refused."""
        body = _string(group) + struct.pack(">i", 60_000) + _string(member_id)
        body += _string("consumer") + struct.pack(">i", 1) + _string("range") + _bytes(b"")
        answer = self.ask(JOIN_GROUP, 0, body)
        code, generation = struct.unpack_from(">hi", answer)
        _refuse(code)
        at = 6
        for _ in range(2):  # the protocol and the leader
            at += 2 + struct.unpack_from(">h", answer, at)[0]
        length = struct.unpack_from(">h", answer, at)[0]
        return generation, answer[at + 2 : at + 2 + length].decode()

    def sync(self, group: str, generation: int, member_id: str) -> None:
        """Give the assignment as the leader. Raises Refused."""
        body = _string(group) + struct.pack(">i", generation) + _string(member_id)
        body += struct.pack(">i", 1) + _string(member_id) + _bytes(b"all of it")
        _refuse(struct.unpack_from(">h", self.ask(SYNC_GROUP, 0, body))[0])


def _refuse(code: int) -> None:
    if code != NONE:
        raise Refused(code)
