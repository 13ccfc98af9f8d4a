"""A proxy between clients and broker that loses chosen responses, as a failing network does.

It forwards whole frames and knows the API of each request by its correlation id. To lose a response
it closes the connection instead of forwarding it: the broker has done its work, but the client does
not know. Addresses in responses are replaced by others of the same length, so that clients connect
to the proxy again.
"""

import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, BinaryIO

from coterie.address import Address

PRODUCE, FETCH, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 3, 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_CLUSTER = 11, 12, 13, 14, 60
APIS_WITH_ADDRESSES = (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER)


class LossyProxy:
    """Listens on a port of its own and forwards to one broker.

    Attributes:
        bootstrap: the address for clients.
    """

    def __init__(self, broker_bootstrap: str) -> None:
        self._broker = Address.parse(broker_bootstrap)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = int(self._listener.getsockname()[1])
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._lock = threading.Lock()
        self._to_lose: Counter[int] = Counter()
        self._lost: Counter[int] = Counter()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def lose(self, api_key: int, count: int = 1) -> None:
        """Lose the next `count` responses of an API."""
        with self._lock:
            self._to_lose[api_key] += count

    def lost(self) -> Counter[int]:
        """Return how many responses were lost so far, by API."""
        with self._lock:
            return Counter(self._lost)

    def still_to_lose(self) -> int:
        """Return how many responses are still to be lost."""
        with self._lock:
            return self._to_lose.total()

    def _run(self, function: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                # The listener was closed.
                return
            try:
                server = socket.create_connection(self._broker, timeout=10)
            except OSError:
                # There is no broker at the moment; the client will try again.
                client.close()
                continue
            server.settimeout(None)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= {client, server}
            pending: dict[int, int] = {}
            self._run(self._forward_requests, client, server, pending)
            self._run(self._forward_responses, client, server, pending)

    def _forward_requests(
        self, client: socket.socket, server: socket.socket, pending: dict[int, int]
    ) -> None:
        with client.makefile("rb") as stream:
            while (frame := read_frame(stream)) is not None:
                api_key, _version, correlation_id = struct.unpack_from(">hhi", frame)
                pending[correlation_id] = api_key
                if not send_frame(server, frame):
                    break
        self._close(client, server)

    def _forward_responses(
        self, client: socket.socket, server: socket.socket, pending: dict[int, int]
    ) -> None:
        host = self._broker.host.encode()
        address = host + struct.pack(">i", self._broker.port)
        own_address = host + struct.pack(">i", self._port)
        with server.makefile("rb") as stream:
            while (frame := read_frame(stream)) is not None:
                api_key = pending.pop(struct.unpack_from(">i", frame)[0], -1)
                if self._must_lose(api_key):
                    break
                if api_key in APIS_WITH_ADDRESSES:
                    frame = frame.replace(address, own_address)
                if not send_frame(client, frame):
                    break
        self._close(client, server)

    def _must_lose(self, api_key: int) -> bool:
        with self._lock:
            if not self._to_lose[api_key]:
                return False
            self._to_lose[api_key] -= 1
            self._lost[api_key] += 1
            return True

    def _close(self, *sockets: socket.socket) -> None:
        for each in sockets:
            # Wakes up the thread of the other direction, which may be reading. The socket may be
            # closed already.
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        with self._lock:
            self._sockets -= set(sockets)

    def close(self) -> None:
        """Stop listening and close all connections."""
        # Wakes up accept(); some systems do not allow it for a listening socket.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            left = list(self._sockets)
        self._close(*left)
        for thread in self._threads:
            thread.join(5)


def read_frame(stream: BinaryIO) -> bytes | None:
    """Return the next whole frame without its length; None at the end of the stream."""
    try:
        prefix = stream.read(4)
        if len(prefix) < 4:
            return None
        (length,) = struct.unpack(">i", prefix)
        frame = stream.read(length)
    except (OSError, ValueError):
        # The connection was closed within a frame.
        return None
    return frame if len(frame) == length else None


def send_frame(to: socket.socket, frame: bytes) -> bool:
    """Send a frame with its length; return False if the connection is closed."""
    try:
        to.sendall(struct.pack(">i", len(frame)) + frame)
    except OSError:
        return False
    return True
