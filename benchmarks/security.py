"""What TLS and logins cost: heartbeats and connections over three listeners of one server.

    python -m benchmarks.tls --rounds 5
    python -m benchmarks.tls --kafka 24910,24913,24912 --authority ca.pem

The second measures a running Kafka, too: the ports of its listeners PLAINTEXT, SSL and SASL_SSL, in
which alice logs in with PLAIN and `alice-secret`. Servers and listeners take turns within a round,
so that other work of the machine falls on all of them. CPU is that of the server, from the kernel's
clock of the process.
"""

import argparse
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.processes import listening_pid
from coterie.authority import CertificateAuthority
from coterie.processes.broker import free_port
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest
from coterie.security.jaas import PLAIN_MODULE

_HOST = "127.0.0.1"
_PLAINTEXT, _SSL, _SASL_SSL = _LISTENERS = ("PLAINTEXT", "SSL", "SASL_SSL")
_CONNECTIONS = 100
_PIPELINED = 50
_GROUP = "bench-tls"
_PASSWORD = "alice-secret"
# How long a JVM is kept busy before it is measured, and a Kafka needs for a new coordinator.
_WARM_UP_S = 10.0
_COORDINATOR_S = 3.0


def _frame(request: Any, version: int) -> bytes:
    return encode_request(request, version, 1, "bench")


# Of a group that does not exist: the answer has an error, and all else is the same.
_HEARTBEAT = _frame(
    HeartbeatRequest(group_id=_GROUP, generation_id=1, member_id="bench-" + "0" * 36), 4
)
_LOGIN = (
    _frame(SaslHandshakeRequest(mechanism="PLAIN"), 1),
    _frame(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{_PASSWORD}".encode()), 2),
)


class Server:
    """A server with three listeners.

    Attributes:
        name: for the table.
        pid: its process.
    """

    def __init__(self, name: str, ports: Mapping[str, int], authority: str, pid: int) -> None:
        """Describe a server that runs; `authority` is the certificate that clients trust."""
        self.name = name
        self.pid = pid
        self._ports = ports
        self._context = ssl.create_default_context(cadata=authority)
        self._clock = ~pid << 3 | 2

    def cpu_s(self) -> float:
        """Return the CPU time of all threads of the server."""
        return time.clock_gettime(self._clock)

    def memory_kib(self) -> int:
        """Return its resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0])

    def connect(self, listener: str) -> socket.socket:
        """Return a connection, whose handshake and login are complete."""
        stream = socket.create_connection((_HOST, self._ports[listener]))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if listener != _PLAINTEXT:
            stream = self._context.wrap_socket(stream, server_hostname="localhost")
        if listener == _SASL_SSL:
            for frame in _LOGIN:
                ask(stream, frame)
        return stream


def ask(stream: socket.socket, frame: bytes) -> bytes:
    """Send a request, whose answer is small."""
    stream.sendall(frame)
    answer = stream.recv(1 << 16)
    assert answer, "the server has closed the connection"
    return answer


@contextmanager
def running() -> Iterator[Server]:
    """Run a server, as users start it."""
    with tempfile.TemporaryDirectory() as directory:
        authority = CertificateAuthority()
        certificate = Path(directory) / "server.pem"
        certificate.write_text(authority.issue("localhost", ["localhost", _HOST]).pem)
        ports = {name: free_port() for name in _LISTENERS}
        jaas = f'{PLAIN_MODULE} required user_alice="{_PASSWORD}";'
        settings = {
            "listeners": ",".join(f"{name}://{_HOST}:{port}" for name, port in ports.items()),
            "ssl.keystore.location": str(certificate),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "coterie", "serve", "--data-dir", ":memory:"]
            + [f"--config={name}={value}" for name, value in settings.items()],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert process.stdout is not None
            assert b"ready on" in process.stdout.readline()
            yield Server("Coterie", ports, authority.certificate, process.pid)
        finally:
            process.terminate()
            process.wait()


def kafka(ports: str, authority: Path) -> Server:
    """Return a running Kafka that has a coordinator and is warm."""
    by_name = dict(zip(_LISTENERS, map(int, ports.split(",")), strict=True))
    pid = listening_pid(by_name[_PLAINTEXT])
    assert pid is not None, f"nothing listens on {ports}"
    server = Server("Kafka", by_name, authority.read_text(encoding="ascii"), pid)
    with server.connect(_PLAINTEXT) as stream:
        ask(stream, _frame(FindCoordinatorRequest(key=_GROUP), 3))
    time.sleep(_COORDINATOR_S)
    for listener in _LISTENERS:
        heartbeats(server, listener, pipelined=1, duration_s=_WARM_UP_S)
        connections(server, listener, count=500)
    return server


def heartbeats(server: Server, listener: str, *, pipelined: int, duration_s: float) -> float:
    """Return microseconds of CPU a heartbeat; the connections take turns."""
    frame, count = _HEARTBEAT * pipelined, 0
    with ExitStack() as stack:
        streams = [stack.enter_context(server.connect(listener)) for _ in range(_CONNECTIONS)]
        size = 0
        for stream in streams:
            size = len(ask(stream, _HEARTBEAT)) * pipelined
        began_s, end_s = server.cpu_s(), time.monotonic() + duration_s
        while time.monotonic() < end_s:
            for stream in streams:
                stream.sendall(frame)
                left = size
                while left:
                    left -= len(stream.recv(1 << 16))
            count += pipelined * len(streams)
        return (server.cpu_s() - began_s) / count * 1e6


def connections(server: Server, listener: str, *, count: int = 200) -> float:
    """Return microseconds of CPU for a connection with one request."""
    began_s = server.cpu_s()
    for _ in range(count):
        with server.connect(listener) as stream:
            ask(stream, _HEARTBEAT)
    return (server.cpu_s() - began_s) / count * 1e6


def memory(server: Server, listener: str, *, count: int = 500) -> float:
    """Return KiB of memory for a connection that has sent a request."""
    with ExitStack() as stack:
        before = server.memory_kib()
        for _ in range(count):
            ask(stack.enter_context(server.connect(listener)), _HEARTBEAT)
        return (server.memory_kib() - before) / count


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each shape in a round")
    parser.add_argument("--kafka", metavar="PLAINTEXT,SSL,SASL_SSL", help="ports of a Kafka")
    parser.add_argument("--authority", type=Path, help="the certificate that its clients trust")
    arguments = parser.parse_args()
    shapes: dict[str, Callable[[Server, str], float]] = {
        "heartbeat, one at a time, us": lambda server, listener: heartbeats(
            server, listener, pipelined=1, duration_s=arguments.seconds
        ),
        f"heartbeat, {_PIPELINED} pipelined, us": lambda server, listener: heartbeats(
            server, listener, pipelined=_PIPELINED, duration_s=arguments.seconds
        ),
        "connection with one request, us": connections,
    }
    print(
        f"| server CPU, {ssl.OPENSSL_VERSION} | | {' | '.join(_LISTENERS)} |\n|---|---|---|---|---|"
    )
    with running() as ours:
        servers = [ours]
        if arguments.kafka:
            servers.append(kafka(arguments.kafka, arguments.authority))
        connections(ours, _SSL)
        for name, measure in shapes.items():
            found: dict[tuple[str, str], list[float]] = {}
            for _ in range(arguments.rounds):
                for listener in _LISTENERS:
                    for server in servers:
                        key = server.name, listener
                        found.setdefault(key, []).append(measure(server, listener))
            for server in servers:
                cells = (_cell(found, server.name, listener) for listener in _LISTENERS)
                print(f"| {name} | {server.name} | {' | '.join(cells)} |", flush=True)
    sizes = []
    for listener in _LISTENERS:
        with running() as server:
            connections(server, listener)
            sizes.append(f"{memory(server, listener):.1f}")
    print(f"| memory of a connection, KiB | Coterie | {' | '.join(sizes)} |")


def _cell(found: Mapping[tuple[str, str], list[float]], server: str, listener: str) -> str:
    """Return the median, and the median of the ratios to plaintext."""
    plain, these = found[server, _PLAINTEXT], found[server, listener]
    ratio = statistics.median(one / other for one, other in zip(these, plain, strict=True))
    text = f"{statistics.median(these):.1f}"
    return text if listener == _PLAINTEXT else f"{text} (x {ratio:.2f})"


if __name__ == "__main__":
    main()
