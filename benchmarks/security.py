"""What TLS, logins and access rules cost: heartbeats and connections, beside Kafka if it is wanted.

    python -m benchmarks.security --rounds 5
    python -m benchmarks.security --rounds 5 --seconds 3 --warmup 20 --kafka

Servers and listeners take turns within a round, so that other work of the machine falls on all of
them. Access rules are measured at listeners of SASL_PLAINTEXT, of a server with 10,000 of them and
of one without an authorizer.
"""

import argparse
import ssl
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from benchmarks.secured_servers import (
    AUTHORIZER,
    GROUP,
    PLAINTEXT,
    SASL_PLAINTEXT,
    SASL_SSL,
    SSL,
    Files,
    Server,
    ask,
    coterie,
    frame_of,
    kafka,
    new_files,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest

_COLUMNS = (PLAINTEXT, SSL, SASL_SSL)
_CONNECTIONS = 100
_PIPELINED = 50
_RULES = 10_000
# For how many connections a JVM is warmed up.
_WARM_CONNECTIONS = 500

Measure = Callable[[Server, str], float]
Found = Mapping[tuple[str, str], Sequence[float]]


def _heartbeat(number: int) -> bytes:
    """Return a heartbeat of a group that does not exist: only its answer is another one."""
    group_id, member_id = f"{GROUP}{number:05}", "bench-" + "0" * 36
    return frame_of(HeartbeatRequest(group_id=group_id, generation_id=1, member_id=member_id), 4)


def heartbeats(server: Server, listener: str, *, pipelined: int, duration_s: float) -> float:
    """Return microseconds of CPU a heartbeat; the connections, each with its group, take turns."""
    count = 0
    with ExitStack() as stack:
        streams = [
            (stack.enter_context(server.connect(listener)), _heartbeat(number) * pipelined)
            for number in range(_CONNECTIONS)
        ]
        size = 0
        for stream, frames in streams:
            size = len(ask(stream, frames[: len(frames) // pipelined])) * pipelined
        began_s, end_s = server.cpu_s(), time.monotonic() + duration_s
        while time.monotonic() < end_s:
            for stream, frames in streams:
                stream.sendall(frames)
                left = size
                while left:
                    left -= len(stream.recv(1 << 16))
            count += pipelined * len(streams)
        return (server.cpu_s() - began_s) / count * 1e6


def connections(server: Server, listener: str, *, count: int = 200) -> float:
    """Return microseconds of CPU for a connection with one request."""
    frame = _heartbeat(0)
    began_s = server.cpu_s()
    for _ in range(count):
        with server.connect(listener) as stream:
            ask(stream, frame)
    return (server.cpu_s() - began_s) / count * 1e6


def memory(server: Server, listener: str, *, count: int = 500) -> float:
    """Return KiB of memory for a connection that has sent a request."""
    connections(server, listener)
    with ExitStack() as stack:
        before = server.memory_kib()
        for number in range(count):
            ask(stack.enter_context(server.connect(listener)), _heartbeat(number))
        return (server.memory_kib() - before) / count


def warm(server: Server, listeners: Sequence[str], warmup_s: float) -> None:
    """Keep a JVM busy before it is measured."""
    for listener in listeners:
        for pipelined in (1, _PIPELINED):
            heartbeats(server, listener, pipelined=pipelined, duration_s=warmup_s / 2)
        connections(server, listener, count=_WARM_CONNECTIONS)


def _heartbeat_shapes(seconds: float) -> dict[str, Measure]:
    return {
        "heartbeat, one at a time, us": lambda server, listener: heartbeats(
            server, listener, pipelined=1, duration_s=seconds
        ),
        f"heartbeat, {_PIPELINED} pipelined, us": lambda server, listener: heartbeats(
            server, listener, pipelined=_PIPELINED, duration_s=seconds
        ),
    }


def measure_listeners(servers: Sequence[Server], rounds: int, seconds: float) -> None:
    """Print a table of the listeners."""
    print(
        f"| server CPU, {ssl.OPENSSL_VERSION} | | {' | '.join(_COLUMNS)} |\n|---|---|---|---|---|"
    )
    shapes = _heartbeat_shapes(seconds) | {"connection with one request, us": connections}
    for name, measure in shapes.items():
        found: dict[tuple[str, str], list[float]] = {}
        for _ in range(rounds):
            for listener in _COLUMNS:
                for server in servers:
                    key = server.name, listener
                    found.setdefault(key, []).append(measure(server, listener))
        for server in servers:
            cells = (_cell(found, server.name, listener) for listener in _COLUMNS)
            print(f"| {name} | {server.name} | {' | '.join(cells)} |", flush=True)


def measure_memory(files: Files, others: Sequence[Server]) -> None:
    """Print what a connection takes: of a server of ours for each listener, and of others."""
    sizes = []
    for listener in _COLUMNS:
        with coterie(files) as server:
            sizes.append(f"{memory(server, listener):.1f}")
    print(f"| memory of a connection, KiB | Coterie | {' | '.join(sizes)} |")
    for each in others:
        sizes = [f"{memory(each, listener):.1f}" for listener in _COLUMNS]
        print(f"| the same, in the heap of Java | {each.name} | {' | '.join(sizes)} |", flush=True)


def measure_rules(pairs: Sequence[tuple[Server, Server]], rounds: int, seconds: float) -> None:
    """Print what heartbeats cost without an authorizer, and with rules.

    Args:
        pairs: a server without an authorizer and one with rules, each.
        rounds: of each figure.
        seconds: of each shape in a round.
    """
    head = f"| server CPU, SASL_PLAINTEXT | | no authorizer | {_RULES:,} rules | more |"
    print(f"\n{head}\n|---|---|---|---|---|")
    for name, measure in _heartbeat_shapes(seconds).items():
        found: dict[str, list[tuple[float, float]]] = {}
        for _ in range(rounds):
            for without, ruled in pairs:
                cost = measure(without, SASL_PLAINTEXT), measure(ruled, SASL_PLAINTEXT)
                found.setdefault(without.name, []).append(cost)
        for server, costs in found.items():
            free = statistics.median(first for first, _ in costs)
            judged = statistics.median(second for _, second in costs)
            more = statistics.median(second - first for first, second in costs)
            print(f"| {name} | {server} | {free:.1f} | {judged:.1f} | {more:+.2f} |", flush=True)


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each shape in a round")
    parser.add_argument("--warmup", type=float, default=10.0, help="seconds of a JVM a listener")
    parser.add_argument("--kafka", action="store_true", help="measure a Kafka 4.3.1, too")
    arguments = parser.parse_args()
    began_s = time.monotonic()
    with ExitStack() as stack:
        files = stack.enter_context(new_files())
        ours = stack.enter_context(coterie(files))
        others = [stack.enter_context(kafka(files))] if arguments.kafka else []
        for each in others:
            warm(each, (*_COLUMNS, SASL_PLAINTEXT), arguments.warmup)
        connections(ours, SSL)
        servers = [ours, *others]
        measure_listeners(servers, arguments.rounds, arguments.seconds)
        measure_memory(files, others)
        pairs = []
        for without, start in zip(servers, (coterie, kafka), strict=False):
            ruled = stack.enter_context(start(files, AUTHORIZER))
            ruled.add_rules(_RULES)
            if without is not ours:
                warm(ruled, (SASL_PLAINTEXT,), arguments.warmup)
            pairs.append((without, ruled))
        measure_rules(pairs, arguments.rounds, arguments.seconds)
    print(f"\n{time.monotonic() - began_s:.0f} s")


def _cell(found: Found, server: str, listener: str) -> str:
    """Return the median, and the median of the ratios to plaintext."""
    plain, these = found[server, PLAINTEXT], found[server, listener]
    ratio = statistics.median(one / other for one, other in zip(these, plain, strict=True))
    text = f"{statistics.median(these):.1f}"
    return text if listener == PLAINTEXT else f"{text} (x {ratio:.2f})"


if __name__ == "__main__":
    main()
