"""A proxy between clients and broker that loses chosen answers, as a failing network does.

It forwards whole frames, knows each request's API by its correlation id, and when told to, closes
the connection instead of passing an answer on: the broker has done its work, the client cannot
know. Addresses in the answers are rewritten (same length), so clients come back to the proxy.
"""

import contextlib
import socket
import struct
import threading
from collections import Counter

PRODUCE, FETCH, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 3, 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_CLUSTER = 11, 12, 13, 14, 60
CARRY_ADDRESSES = (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER)


class LossyProxy:
    """Listens on a port of its own and forwards to one broker."""

    def __init__(self, broker_bootstrap: str) -> None:
        host, port = broker_bootstrap.rsplit(":", 1)
        self._broker = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._lock = threading.Lock()
        self._to_lose: Counter[int] = Counter()
        self._to_spare: Counter[int] = Counter()
        self._lost: Counter[int] = Counter()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def lose(self, api_key: int, count: int = 1, after: int = 0) -> None:
        """Lose `count` answers of this API, after letting `after` of them pass."""
        with self._lock:
            self._to_lose[api_key] += count
            self._to_spare[api_key] += after

    def lost(self) -> Counter[int]:
        """How many answers were lost so far, by API."""
        with self._lock:
            return Counter(self._lost)

    def still_to_lose(self) -> int:
        """How many losses are ordered and have not happened yet."""
        with self._lock:
            return self._to_lose.total()

    def _run(self, function: object, *arguments: object) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._broker, timeout=10)
            except OSError:
                # The listener was closed, or there is no broker; a client will try again.
                if self._listener.fileno() < 0:
                    return
                continue
            server.settimeout(None)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= {client, server}
            pending: dict[int, int] = {}
            self._run(self._forward_requests, client, server, pending)
            self._run(self._forward_answers, client, server, pending)

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

    def _forward_answers(
        self, client: socket.socket, server: socket.socket, pending: dict[int, int]
    ) -> None:
        real = self._broker[0].encode() + struct.pack(">i", self._broker[1])
        ours = self._broker[0].encode() + struct.pack(">i", self.port)
        with server.makefile("rb") as stream:
            while (frame := read_frame(stream)) is not None:
                api_key = pending.pop(struct.unpack_from(">i", frame)[0], -1)
                if self._must_lose(api_key):
                    break
                if api_key in CARRY_ADDRESSES:
                    frame = frame.replace(real, ours)
                if not send_frame(client, frame):
                    break
        self._close(client, server)

    def _must_lose(self, api_key: int) -> bool:
        with self._lock:
            if not self._to_lose[api_key]:
                return False
            if self._to_spare[api_key]:
                self._to_spare[api_key] -= 1
                return False
            self._to_lose[api_key] -= 1
            self._lost[api_key] += 1
            return True

    def _close(self, *sockets: socket.socket) -> None:
        for each in sockets:
            # Wakes up the other direction, which may be reading; it may be closed already.
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        with self._lock:
            self._sockets -= set(sockets)

    def close(self) -> None:
        """Stop listening and cut every connection."""
        # Wakes up accept(); not every system lets a listening socket be shut down.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            left = list(self._sockets)
        self._close(*left)
        for thread in self._threads:
            thread.join(5)


def read_frame(stream: object) -> bytes | None:
    """The next whole frame without its length, None at the end of the stream."""
    try:
        prefix = stream.read(4)
        if len(prefix) < 4:
            return None
        (length,) = struct.unpack(">i", prefix)
        frame = stream.read(length)
    except (OSError, ValueError):
        # Cut off in the middle, by either side.
        return None
    return frame if len(frame) == length else None


def send_frame(to: socket.socket, frame: bytes) -> bool:
    """Send a frame with its length; False if the other side is gone."""
    try:
        to.sendall(struct.pack(">i", len(frame)) + frame)
    except OSError:
        return False
    return True
