"""A server as users start it, with every kind of listener, and an honest client beside attacks."""

import json
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from coterie.authority import CertificateAuthority
from coterie.processes.broker import free_port
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.unit.server.running import read_exactly

_HOST = "127.0.0.1"
USER, PASSWORD = "alice", "alice-secret"
DELAY_MS = 100
_PLAIN_USERS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
)
# More than any step takes.
PATIENCE_S = 60.0


class Server:
    """A server with a plaintext listener, one with logins and one with TLS.

    Attributes:
        context: for clients of TLS.
        slowest_s: how long the honest client has waited for an answer at most.
    """

    def __init__(self) -> None:
        """Start it."""
        self._directory = tempfile.TemporaryDirectory()
        directory = Path(self._directory.name)
        authority = CertificateAuthority()
        (directory / "server.pem").write_text(authority.issue("localhost", [_HOST]).pem)
        self.context = ssl.create_default_context(cadata=authority.certificate)
        self.ports = {each: free_port() for each in ("PLAINTEXT", "SASL_PLAINTEXT", "SSL")}
        settings = {
            "listeners": ",".join(f"{name}://{_HOST}:{at}" for name, at in self.ports.items()),
            "ssl.keystore.location": str(directory / "server.pem"),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": _PLAIN_USERS,
            "connection.failed.authentication.delay.ms": str(DELAY_MS),
            "max.connections": "20000",
            "max.connections.per.ip": "20000",
            "offsets.topic.num.partitions": "4",
        }
        self._log = (directory / "log").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "coterie", "serve", "--data-dir", ":memory:"]
            + [
                "--log-format",
                "json",
                f"--add-scram=SCRAM-SHA-256=[name={USER},password={PASSWORD}]",
            ]
            + [f"--config={name}={value}" for name, value in settings.items()],
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self._process.stdout is not None
        assert b"ready on" in self._process.stdout.readline()
        self._clock = ~self._process.pid << 3 | 2
        self.slowest_s = 0.0
        self._honest = self.connect("SASL_PLAINTEXT")
        assert log_in(self._honest, b"\0%b\0%b" % (USER.encode(), PASSWORD.encode())) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._honest.close()
        self._process.terminate()
        self._process.communicate()
        self._log.close()
        self._directory.cleanup()

    def connect(self, listener: str) -> socket.socket:
        """Return a connection to a listener."""
        stream = socket.create_connection((_HOST, self.ports[listener]), timeout=PATIENCE_S)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return stream

    def shake_hands(self) -> ssl.SSLSocket:
        """Return a connection whose TLS handshake is complete."""
        return self.context.wrap_socket(self.connect("SSL"), server_hostname=_HOST)

    def cpu_s(self) -> float:
        """Return the CPU time of all threads."""
        return time.clock_gettime(self._clock)

    def memory_kib(self) -> int:
        """Return the resident memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0])

    def connections(self) -> int:
        """Return how many sockets it has."""
        found = 0
        for each in Path(f"/proc/{self._process.pid}/fd").iterdir():
            try:
                found += str(each.readlink()).startswith("socket:")
            except OSError:
                continue
        return found

    def log_lines(self) -> list[dict[str, object]]:
        """Return all lines of the log."""
        self._log.seek(0)
        return [json.loads(line) for line in self._log if line.startswith("{")]

    def ask(self) -> None:
        """Let the honest client ask for something, and note how long that took."""
        began_s = time.monotonic()
        handshake = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 7, "honest")
        self._honest.sendall(handshake)
        read_frame(self._honest)
        self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)


def read_frame(stream: socket.socket) -> bytes:
    """Return the next frame without its length."""
    return read_exactly(stream, int.from_bytes(read_exactly(stream, 4)))


def log_in(stream: socket.socket, token: bytes, mechanism: str = "PLAIN") -> int:
    """Send a handshake and one token; return the error."""
    stream.sendall(encode_request(SaslHandshakeRequest(mechanism=mechanism), 1, 1, "c"))
    read_frame(stream)
    stream.sendall(encode_request(SaslAuthenticateRequest(auth_bytes=token), 1, 2, "c"))
    return int.from_bytes(read_frame(stream)[4:6])
