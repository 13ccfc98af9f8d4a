"""Servers with TLS, logins and perhaps access rules, to be measured: ours, and Kafka 4.3.1.

Both are started with the same settings, PEM file and listeners; alice logs in with PLAIN. Kafka's
jars come from Maven, once (`coterie/lab/live/parts.py`). CPU is that of all threads of the server,
from the kernel's clock of the process.
"""

import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from coterie.authority import CertificateAuthority
from coterie.client.cluster import Cluster
from coterie.lab.live.parts import KAFKA_4_TOOLS, jars_of, java_command
from coterie.processes import Child, free_port
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.create_acls import CreateAclsResponse
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest
from coterie.security.acl_messages import creation_request
from coterie.security.acl_text import parse_acl
from coterie.security.jaas import PLAIN_MODULE
from coterie.server.authorization.access import STANDARD_AUTHORIZER

PLAINTEXT, SSL, SASL_SSL, SASL_PLAINTEXT = LISTENERS = (
    "PLAINTEXT",
    "SSL",
    "SASL_SSL",
    "SASL_PLAINTEXT",
)
# All groups that are asked about have names that begin so.
GROUP = "bench-"
# Clients without a login may do everything, as Kafka's own listeners need it.
AUTHORIZER: Mapping[str, str] = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}
_HOST = "127.0.0.1"
_PASSWORD = "alice-secret"
_HEAP_MB = 1024
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
# A new Kafka needs some seconds for its first coordinator.
_COORDINATOR_S = 5.0
_START_LIMIT_S = 120.0
# Rules that one request creates; Kafka takes 10,000 records in a change at most.
_RULES_A_REQUEST = 500


class Files(NamedTuple):
    """What servers and clients share.

    Attributes:
        directory: for everything.
        certificate: the file of the servers, with key and certificate.
        authority: the certificate that clients trust, as text.
    """

    directory: Path
    certificate: Path
    authority: str


@contextmanager
def new_files() -> Iterator[Files]:
    """Make an authority and a certificate, in a directory that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as name:
        authority, directory = CertificateAuthority(), Path(name)
        certificate = directory / "server.pem"
        certificate.write_text(authority.issue("localhost", ["localhost", _HOST]).pem)
        yield Files(directory, certificate, authority.certificate)


def frame_of(request: Any, version: int) -> bytes:
    """Return the frame of a request."""
    return encode_request(request, version, 1, "bench")


_LOGIN = (
    frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 1),
    frame_of(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{_PASSWORD}".encode()), 2),
)


class Server:
    """A server that runs.

    Attributes:
        name: for the table.
        pid: its process.
    """

    def __init__(self, name: str, ports: Mapping[str, int], authority: str, pid: int) -> None:
        """Describe a server; `authority` is the certificate that clients trust."""
        self.name = name
        self.pid = pid
        self._ports = ports
        self._context = ssl.create_default_context(cadata=authority)
        self._clock = ~pid << 3 | 2

    def cpu_s(self) -> float:
        """Return the CPU time of all threads of the server."""
        return time.clock_gettime(self._clock)

    def memory_kib(self) -> float:
        """Return its resident memory; of Kafka what is alive in the heap of Java."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0])

    def connect(self, listener: str) -> socket.socket:
        """Return a connection, whose handshake and login are complete."""
        stream = socket.create_connection((_HOST, self._ports[listener]))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if listener in (SSL, SASL_SSL):
            stream = self._context.wrap_socket(stream, server_hostname="localhost")
        if listener in (SASL_SSL, SASL_PLAINTEXT):
            for frame in _LOGIN:
                ask(stream, frame)
        return stream

    def add_rules(self, count: int) -> None:
        """Give alice the right to the groups, among so many rules."""
        texts = [f"User:alice ALLOW READ GROUP {GROUP} PREFIXED"]
        for number in range(count - 1):
            kind = ("TOPIC orders-", "TOPIC t", "GROUP billing-")[number % 3]
            pattern = "PREFIXED" if number % 10 == 0 else "LITERAL"
            texts.append(f"User:user-{number % 97} ALLOW READ {kind}{number} {pattern}")
        with Cluster(f"{_HOST}:{self._ports[PLAINTEXT]}") as admin:
            for first in range(0, count, _RULES_A_REQUEST):
                rules = [parse_acl(text) for text in texts[first : first + _RULES_A_REQUEST]]
                created = admin.call_any(creation_request(rules), CreateAclsResponse)
                assert not any(each.error_code for each in created.results), created


class KafkaServer(Server):
    """A Kafka that runs."""

    def memory_kib(self) -> float:
        """Return the memory of the objects that are alive in its heap, after a collection."""
        done = subprocess.run(
            ["jcmd", str(self.pid), "GC.class_histogram"],
            capture_output=True,
            text=True,
            check=True,
        )
        total = done.stdout.split("Total")[1].split()
        return int(total[1]) / 1024


def ask(stream: socket.socket, frame: bytes) -> bytes:
    """Send a request, whose answer is small."""
    stream.sendall(frame)
    answer = stream.recv(1 << 16)
    assert answer, "the server has closed the connection"
    return answer


def _settings(files: Files, ports: Mapping[str, int]) -> dict[str, str]:
    jaas = f'{PLAIN_MODULE} required user_alice="{_PASSWORD}";'
    return {
        "listeners": ",".join(f"{name}://{_HOST}:{port}" for name, port in ports.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.certificate),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
    }


@contextmanager
def coterie(files: Files, more: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run our server, as users start it, with more settings."""
    ports = {name: free_port() for name in LISTENERS}
    settings = _settings(files, ports) | dict(more or {})
    command = [sys.executable, "-m", "coterie", "serve", "--data-dir", ":memory:"]
    command += [f"--config={name}={value}" for name, value in settings.items()]
    child = Child("coterie", command, files.directory / f"coterie-{ports[PLAINTEXT]}.log")
    try:
        child.wait_for_line("ready on", _START_LIMIT_S)
        yield Server("Coterie", ports, files.authority, child.process.pid)
    finally:
        child.end()


@contextmanager
def kafka(files: Files, more: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run a Kafka of one node that has a coordinator, with more settings."""
    ports = {name: free_port() for name in (*LISTENERS, "CONTROLLER")}
    own = files.directory / f"kafka-{ports[PLAINTEXT]}"
    settings = _settings(files, ports) | {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{_HOST}:{ports['CONTROLLER']}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": PLAINTEXT,
        "listener.security.protocol.map": ",".join(
            f"{name}:{PLAINTEXT if name == 'CONTROLLER' else name}" for name in ports
        ),
        "log.dirs": str(own),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        **(more or {}),
    }
    # Its advertised listeners are those of clients.
    properties = own.with_suffix(".properties")
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    jars = jars_of(KAFKA_4_TOOLS)
    arguments = ["format", "-t", _CLUSTER_ID, "-c", str(properties)]
    format_command = java_command(jars, "kafka.tools.StorageTool", arguments)
    subprocess.run(format_command, check=True, capture_output=True)
    command = java_command(jars, "kafka.Kafka", [str(properties)], heap_mb=_HEAP_MB)
    child = Child("kafka", command, own.with_suffix(".log"))
    try:
        child.wait_for_answer((_HOST, ports[PLAINTEXT]), limit_s=_START_LIMIT_S)
        server = KafkaServer("Kafka", ports, files.authority, child.process.pid)
        with server.connect(PLAINTEXT) as stream:
            ask(stream, frame_of(FindCoordinatorRequest(key=GROUP), 3))
        time.sleep(_COORDINATOR_S)
        yield server
    finally:
        child.end()
