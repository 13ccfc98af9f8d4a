"""What TLS costs: heartbeats and handshakes over a plaintext and a TLS listener of one server.

    python -m benchmarks.tls --rounds 5

The shapes take turns within a round, so that other work of the machine falls on all of them. CPU
is that of the server, from the kernel's clock of the process.
"""

import argparse
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from coterie.authority import CertificateAuthority
from coterie.processes.broker import free_port
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.heartbeat import HeartbeatRequest

_HOST = "127.0.0.1"
_CONNECTIONS = 100
_PIPELINED = 50
# Of a group that does not exist: the answer has an error, and all else is the same.
_FRAME = encode_request(
    HeartbeatRequest(group_id="bench-tls", generation_id=1, member_id="bench-" + "0" * 36),
    4,
    1,
    "bench",
)


class Server:
    """A server with two listeners, as users start it."""

    def __init__(self, directory: Path) -> None:
        authority = CertificateAuthority()
        server = directory / "server.pem"
        server.write_text(authority.issue("localhost", ["localhost", _HOST]).pem)
        self.plain, self.tls = (_HOST, free_port()), (_HOST, free_port())
        self.context = ssl.create_default_context(cadata=authority.certificate)
        listeners = f"PLAINTEXT://{_HOST}:{self.plain[1]},SSL://{_HOST}:{self.tls[1]}"
        settings = (f"listeners={listeners}", f"ssl.keystore.location={server}")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coterie", "serve", "--data-dir", ":memory:"]
            + [f"--config={each}" for each in settings],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        assert b"ready on" in self.process.stdout.readline()
        self._clock = ~self.process.pid << 3 | 2

    def cpu_s(self) -> float:
        """Return the CPU time of all threads of the server."""
        return time.clock_gettime(self._clock)

    def memory_kib(self) -> int:
        """Return its resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0])

    def connect(self, *, tls: bool) -> socket.socket:
        """Return a connection, whose handshake is complete."""
        stream = socket.create_connection(self.tls if tls else self.plain)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.context.wrap_socket(stream, server_hostname=_HOST) if tls else stream


@contextmanager
def running() -> Iterator[Server]:
    """Run a server."""
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory))
        try:
            yield server
        finally:
            server.process.terminate()
            server.process.wait()


def heartbeats(server: Server, *, tls: bool, pipelined: int, duration_s: float) -> float:
    """Return microseconds of CPU a heartbeat; the connections take turns."""
    frame, count = _FRAME * pipelined, 0
    with ExitStack() as stack:
        streams = [stack.enter_context(server.connect(tls=tls)) for _ in range(_CONNECTIONS)]
        size = 0
        for stream in streams:
            stream.sendall(_FRAME)
            size = len(stream.recv(1 << 16)) * pipelined
        began_s, end_s = server.cpu_s(), time.monotonic() + duration_s
        while time.monotonic() < end_s:
            for stream in streams:
                stream.sendall(frame)
                left = size
                while left:
                    left -= len(stream.recv(1 << 16))
            count += pipelined * len(streams)
        return (server.cpu_s() - began_s) / count * 1e6


def handshakes(server: Server, *, tls: bool, count: int = 200) -> float:
    """Return microseconds of CPU for a connection with one request."""
    began_s = server.cpu_s()
    for _ in range(count):
        with server.connect(tls=tls) as stream:
            stream.sendall(_FRAME)
            stream.recv(1 << 16)
    return (server.cpu_s() - began_s) / count * 1e6


def memory(server: Server, *, tls: bool, count: int = 500) -> float:
    """Return KiB of memory for a connection that has sent a request."""
    with ExitStack() as stack:
        before = server.memory_kib()
        for _ in range(count):
            stream = stack.enter_context(server.connect(tls=tls))
            stream.sendall(_FRAME)
            stream.recv(1 << 16)
        return (server.memory_kib() - before) / count


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each shape in a round")
    arguments = parser.parse_args()
    shapes: dict[str, Callable[[Server, bool], float]] = {
        "heartbeat, one at a time, us": lambda server, tls: heartbeats(
            server, tls=tls, pipelined=1, duration_s=arguments.seconds
        ),
        f"heartbeat, {_PIPELINED} pipelined, us": lambda server, tls: heartbeats(
            server, tls=tls, pipelined=_PIPELINED, duration_s=arguments.seconds
        ),
        "connection with one request, us": lambda server, tls: handshakes(server, tls=tls),
    }
    print(f"| server CPU, {ssl.OPENSSL_VERSION} | plaintext | TLS 1.3 | ratio |\n|---|---|---|---|")
    with running() as server:
        handshakes(server, tls=True)
        for name, measure in shapes.items():
            rounds = range(arguments.rounds)
            pairs = [(measure(server, False), measure(server, True)) for _ in rounds]
            plain, tls = (statistics.median(each) for each in zip(*pairs, strict=True))
            ratio = statistics.median(tls / plain for plain, tls in pairs)
            print(f"| {name} | {plain:.1f} | {tls:.1f} | {ratio:.2f} |", flush=True)
    sizes = []
    for tls in (False, True):
        with running() as server:
            handshakes(server, tls=tls)
            sizes.append(memory(server, tls=tls))
    print(f"| memory of a connection, KiB | {sizes[0]:.1f} | {sizes[1]:.1f} | |")


if __name__ == "__main__":
    main()
