"""The attacks: many peers that do not log in, slowly, wrongly, or with too much.

Each of them begins with connections that stay for a while. After `limits.LOGIN_DEADLINE_MS` all
that have not logged in must be gone.
"""

import resource
import socket
import ssl
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import NamedTuple

from coterie.protocol.frames import encode_request
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest
from coterie.server.network import limits
from tests.attacks.target import DELAY_MS, PATIENCE_S, USER, Server, log_in, read_frame

# Connections that fail to log in at a time.
_WRONG_AT_ONCE = 100
# A sweep ends connections up to a second late, and the machine has other work.
_LATE_S = 5.0
_LARGE_BYTES = 500_000
_KIB = 1024
_MEMBERS_OF_A_GROUP = 20
_HONEST_CPU_MS = 50.0


class Figure(NamedTuple):
    """What was measured, and the most that it may be; None if it is for information."""

    name: str
    value: float
    most: float | None
    unit: str

    @property
    def is_above(self) -> bool:
        """Whether a promise is broken."""
        return self.most is not None and self.value > self.most

    def __str__(self) -> str:
        most = "" if self.most is None else f"at most {self.most:,g}"
        mark = "  ABOVE" if self.is_above else ""
        return f"{self.name:<72}{self.value:>12,.1f} {self.unit:<6}{most}{mark}"


def run(scale: float, names: Iterable[str] = ()) -> list[Figure]:
    """Run attacks, each with a part of its clients; return what was measured.

    Args:
        scale: how many clients, of the full number.
        names: some of `ATTACKS`; none for all.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    figures: list[Figure] = []

    with Server() as server:
        for name in names or ATTACKS:
            attack, count = ATTACKS[name]
            server.slowest_s = 0.0
            figures += attack(server, max(int(count * scale), 10))
            slowest_ms = 1_000 * server.slowest_s
            figures.append(Figure("    an honest client waited at most", slowest_ms, None, "ms"))
    return figures


def _consumers(server: Server, count: int) -> list[Figure]:
    """Members of consumer groups over TLS: what they cost, without any attack."""
    with ExitStack() as stack:
        # What the first ones make is not theirs.
        for _ in range(10):
            _join(stack.enter_context(server.shake_hands()), 0)
        server.ask()
        memory_kib, cpu_s = server.memory_kib(), server.cpu_s()
        streams = [stack.enter_context(server.shake_hands()) for _ in range(count)]
        handshake_ms = 1_000 * (server.cpu_s() - cpu_s) / count
        connection_kib = (server.memory_kib() - memory_kib) / count
        server.ask()
        cpu_s = server.cpu_s()
        for number, stream in enumerate(streams):
            _join(stream, number)
        joined_ms = 1_000 * (server.cpu_s() - cpu_s) / count
        member_kib = (server.memory_kib() - memory_kib) / count
    what = f"{count:,} consumers with TLS: "
    return [
        Figure(f"{what}CPU of a handshake", handshake_ms, 1.0, "ms"),
        Figure("    memory of a connection", connection_kib, 25.0, "KiB"),
        Figure("    memory of a connection with its member", member_kib, None, "KiB"),
        Figure("    CPU of a join", joined_ms, None, "ms"),
    ]


def _join(stream: socket.socket, number: int) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=f"g-{number // _MEMBERS_OF_A_GROUP}",
        member_id=f"member-{number}",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    stream.sendall(encode_request(request, 1, 1, "c"))
    read_frame(stream)


def _enumeration(server: Server, count: int) -> list[Figure]:
    """Log in as a user with a wrong password and as nobody, in turns: both must look the same."""
    figures = []
    for mechanism, token in (("PLAIN", "\0{}\0wrong"), ("SCRAM-SHA-256", "n,,n={},r=abc")):
        times: dict[str, list[float]] = {USER: [], "nobody": []}
        for _ in range(count):
            for name, took_s in times.items():
                with server.connect("SASL_PLAINTEXT") as stream:
                    began_s = time.monotonic()
                    error = log_in(stream, token.format(name).encode(), mechanism)
                    took_s.append(time.monotonic() - began_s)
                assert error == (58 if mechanism == "PLAIN" else 0), (mechanism, name, error)
        known, unknown = (1_000 * statistics.median(each) for each in times.values())
        what = f"{count:,} logins with {mechanism}, of a user and of nobody: "
        apart = 100 * abs(known - unknown) / min(known, unknown)
        # The delay hides all else of PLAIN; SCRAM answers the first message at once.
        most = 5.0 if mechanism == "PLAIN" else None
        figures += [
            Figure(f"{what}median of the user", known, None, "ms"),
            Figure("    median of nobody", unknown, None, "ms"),
            Figure("    apart", apart, most, "%"),
        ]
    return figures


def _wrong_passwords(server: Server, count: int) -> list[Figure]:
    """Fail to log in, many at a time."""
    lines, memory_kib, cpu_s = len(server.log_lines()), server.memory_kib(), server.cpu_s()
    began_s = time.monotonic()
    soonest_s, done = PATIENCE_S, 0
    while done < count:
        size = min(_WRONG_AT_ONCE, count - done)
        with ExitStack() as stack:
            streams = [stack.enter_context(server.connect("SASL_PLAINTEXT")) for _ in range(size)]
            sent_s = []
            for number, stream in enumerate(streams):
                token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong-%d" % number)
                handshake = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "c")
                sent_s.append(time.monotonic())
                stream.sendall(handshake + encode_request(token, 1, 2, "c"))
            for stream, at_s in zip(streams, sent_s, strict=True):
                read_frame(stream)
                error = int.from_bytes(read_frame(stream)[4:6])
                assert error == 58, error
                soonest_s = min(soonest_s, time.monotonic() - at_s)
        done += size
        server.ask()
    took_s, cpu_ms = time.monotonic() - began_s, 1e3 * (server.cpu_s() - cpu_s) / count
    new_lines = len(server.log_lines()) - lines
    # Each second has so many lines, and one that says how many there are besides; some are late.
    most_lines = (took_s + 4) * (limits.CLOSE_LINES_PER_SWEEP + 1)
    return [
        Figure(f"{count:,} wrong passwords: CPU of one", cpu_ms, 1, "ms"),
        Figure("    memory that stays", (server.memory_kib() - memory_kib) / _KIB, 30, "MiB"),
        Figure("    lines of the log", new_lines, most_lines, ""),
        Figure("    before the delay was over, by", DELAY_MS - 1e3 * soonest_s, 2, "ms"),
    ]


def _held(
    server: Server,
    listener: str,
    count: int,
    begin: Callable[[socket.socket], None],
    goes_on: Callable[[socket.socket], None] = lambda _: None,
) -> tuple[float, float, float]:
    """Let connections stay until the server ends them.

    Args:
        server: the server.
        listener: where they connect.
        count: how many.
        begin: what each does when it is accepted.
        goes_on: what it does then, ten times a second.

    Returns:
        The memory of one in KiB, the CPU of one in milliseconds, and when the last one had gone, in
        seconds after it was accepted.
    """
    before = server.connections()
    memory_kib, cpu_s = server.memory_kib(), server.cpu_s()
    with ExitStack() as stack:
        streams = []
        for number in range(count):
            stream = stack.enter_context(server.connect(listener))
            with suppress(OSError):
                begin(stream)
            streams.append(stream)
            if number % 100 == 0:
                server.ask()
        last_s = time.monotonic()
        server.ask()
        # Some have gone already if it took long to open all.
        open_now = max(server.connections() - before, 1)
        held_kib = (server.memory_kib() - memory_kib) / open_now
        while server.connections() > before:
            for stream in streams:
                with suppress(OSError):
                    goes_on(stream)
            server.ask()
            assert time.monotonic() < last_s + PATIENCE_S, "they are not ended"
            time.sleep(0.1)
        gone_s = time.monotonic() - last_s
        return held_kib, 1e3 * (server.cpu_s() - cpu_s) / count, gone_s


def _figures(
    what: str, count: int, found: tuple[float, float, float], most_kib: float
) -> list[Figure]:
    held_kib, cpu_ms, gone_s = found
    # An honest client asks all the time, too.
    cpu_ms -= _HONEST_CPU_MS / count
    most_s = limits.LOGIN_DEADLINE_MS / 1_000 + _LATE_S
    return [
        Figure(f"{count:,} {what}: memory of one", held_kib, most_kib, "KiB"),
        Figure("    CPU of one, until it was ended", cpu_ms, 2.0, "ms"),
        Figure("    the last one was ended after", gone_s, most_s, "s"),
    ]


def _silent(server: Server, count: int) -> list[Figure]:
    found = _held(server, "SASL_PLAINTEXT", count, lambda _: None)
    return _figures("connections that say nothing", count, found, 8)


def _half_open(server: Server, count: int) -> list[Figure]:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = server.context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = outgoing.read()

    def begin(stream: socket.socket) -> None:
        stream.sendall(hello)

    found = _held(server, "SSL", count, begin)
    with server.shake_hands() as stream:
        _join(stream, 0)
    return _figures("handshakes that stop behind the hello", count, found, 64)


def _slow(server: Server, count: int) -> list[Figure]:
    token = encode_request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + bytes(500)), 1, 2, "c")
    data = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "c") + token
    sent: dict[socket.socket, int] = {}

    def go_on(stream: socket.socket) -> None:
        at = sent[stream] = sent.get(stream, 0) + 1
        stream.sendall(data[at - 1 : at])

    found = _held(server, "SASL_PLAINTEXT", count, go_on, go_on)
    held_kib, cpu_ms, gone_s = found
    # Each sends a hundred bytes, and each of these is a read.
    return _figures("logins, ten bytes a second", count, (held_kib, cpu_ms / 100, gone_s), 8)


def _large(server: Server, count: int) -> list[Figure]:
    frame = (524_288).to_bytes(4) + bytes(_LARGE_BYTES)
    before_kib = server.memory_kib()
    found = _held(server, "SASL_PLAINTEXT", count, lambda stream: stream.sendall(frame))
    figures = _figures(f"frames of {_LARGE_BYTES:,} bytes, incomplete", count, found, 700)
    left_mib = (server.memory_kib() - before_kib) / _KIB
    # The C library keeps as much for the next ones; a second round takes no more.
    most_mib = max(count * _LARGE_BYTES / _KIB / _KIB, 30)
    return [*figures, Figure("    memory that stays", left_mib, most_mib, "MiB")]


# What is called, and the full number of clients.
ATTACKS: dict[str, tuple[Callable[[Server, int], list[Figure]], int]] = {
    "consumers": (_consumers, 1_000),
    "enumeration": (_enumeration, 200),
    "wrong passwords": (_wrong_passwords, 10_000),
    "silent": (_silent, 10_000),
    "half open": (_half_open, 4_000),
    "slow": (_slow, 200),
    "large": (_large, 200),
}
