"""A blocking client that pipelines, and the honest member that heartbeats meanwhile."""

import multiprocessing
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, Self

from benchmarks.requests import PROTOCOL_NAME, PROTOCOL_TYPE
from coterie.client.errors import error_name
from coterie.protocol.api_keys import ApiKey
from tests.soak.turns.answers import decoded
from tests.soak.turns.requests import frame

_RECEIVE_BYTES = 1 << 20
_PATIENCE_S = 300.0
_HEARTBEAT_EVERY_S = 0.005


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, frames: Sequence[bytes]) -> threading.Thread:
        """Send frames in a thread, so that the server can wait until its answers are read."""
        sending = threading.Thread(target=self._socket.sendall, args=(b"".join(frames),))
        sending.start()
        return sending

    def exchange(self, frames: Sequence[bytes]) -> Counter[bytes]:
        """Send all frames and read as many answers; see `receive`."""
        sending = self.send(frames)
        try:
            return self.receive(len(frames))
        finally:
            sending.join()

    def receive(self, count: int) -> Counter[bytes]:
        """Read so many answers; return how often each came, without its length, in their order."""
        data, answers = self._data, Counter[bytes]()
        while count:
            position = 0
            while count and len(data) - position >= 4:
                end = position + 4 + struct.unpack_from(">i", data, position)[0]
                if end > len(data):
                    break
                answers[bytes(data[position + 4 : end])] += 1
                position, count = end, count - 1
            del data[:position]
            if count:
                part = self._socket.recv(_RECEIVE_BYTES)
                if not part:
                    raise ConnectionError(
                        f"the server closed the connection; {count} answers are missing"
                    )
                data += part
        return answers

    def call(self, api: ApiKey, version: int, **fields: Any) -> Any:
        """Send one request and return its answer."""
        (answer,) = self.exchange([frame(api, version, **fields)])
        return decoded(api, version, answer)


class HonestMember:
    """A group member in a process of its own, and how long it waited for its heartbeats."""

    def __init__(self, port: int) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._asked, answering = spawning.Pipe()
        self._process = spawning.Process(target=_heartbeat, args=(port, answering), daemon=True)
        self._process.start()
        self.longest_ms()

    def longest_ms(self) -> float:
        """Return the longest wait since the last question."""
        self._asked.send(None)
        longest_ms: float = self._asked.recv()
        return longest_ms

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()


def _heartbeat(port: int, asked: Connection) -> None:
    """Join a group, and heartbeat until the process is ended."""
    with Client(port) as client:
        joining = {
            "group_id": "honest",
            "session_timeout_ms": 300_000,
            "rebalance_timeout_ms": 300_000,
            "member_id": "",
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": PROTOCOL_NAME, "metadata": b""}],
        }
        joined = client.call(ApiKey.JOIN_GROUP, 3, **joining)
        while joined.error_code:
            # The coordinator is loading.
            time.sleep(0.05)
            joined = client.call(ApiKey.JOIN_GROUP, 3, **joining)
        membership = {
            "group_id": "honest",
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
        }
        assignments = [{"member_id": joined.member_id, "assignment": b""}]
        client.call(ApiKey.SYNC_GROUP, 2, **membership, assignments=assignments)
        beat = frame(ApiKey.HEARTBEAT, 3, **membership)
        longest_s = 0.0
        while True:
            began_s = time.monotonic()
            (answer,) = client.exchange([beat])
            longest_s = max(longest_s, time.monotonic() - began_s)
            code = decoded(ApiKey.HEARTBEAT, 3, answer).error_code
            assert not code, f"an honest member was answered {error_name(code)}"
            if asked.poll():
                asked.recv()
                asked.send(longest_s * 1000)
                longest_s = 0.0
            time.sleep(_HEARTBEAT_EVERY_S)
