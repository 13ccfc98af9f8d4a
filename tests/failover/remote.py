"""Clients in other languages: Kafka's own of Java, with both group protocols, and franz-go.

Each is a program with a port. A connection is one client; its first line says which, each further
line is a call, and an answer is `ok` and what was found, or `failed` and why.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.processes import Child, Children
from tests.failover.libraries import Library, Record, RemoteError
from tests.interop.go_suites import build_source
from tests.interop.model import Skipped, Surroundings
from tests.interop.programs._java import start_java
from tests.interop.programs.secured_franz_go import MODULE, SOURCES, VERSION
from tests.soak.ledger import TopicPartition

# Longer than the limit of a call in the programs.
_LIMIT_S = 45.0


class _Client:
    """A connection to a program."""

    def __init__(self, port: int, *words: str) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), _LIMIT_S)
        self._lines = self._connection.makefile("rw", encoding="utf-8", newline="\n")
        self._call(*words)

    def _call(self, *words: object) -> list[str]:
        """Return the words of the answer to a call.

        Raises:
            RemoteError: the call has failed, or the program has ended.
            TimeoutError: there is no answer.
        """
        print(*words, file=self._lines, flush=True)
        outcome, *rest = self._lines.readline().split() or ["failed", "no answer"]
        if outcome != "ok":
            raise RemoteError(" ".join(rest))
        return rest

    def close(self) -> None:
        """End the client; the program closes its connection when that is done."""
        self._connection.shutdown(socket.SHUT_WR)
        self._lines.read()
        self._lines.close()
        self._connection.close()


class _Producer(_Client):
    def send(self, partition: TopicPartition, value: bytes) -> int:
        (offset,) = self._call("send", *partition, value.decode())
        return int(offset)


class _Register(_Client):
    def commit(self, offset: int) -> None:
        self._call("commit", offset)

    def committed(self) -> int:
        (offset,) = self._call("committed")
        return int(offset)


class _Member(_Client):
    assignments = 0

    def poll(self) -> list[Record]:
        assignments, *words = self._call("poll")
        self.assignments = int(assignments)
        each = iter(words)
        return [
            Record((topic, int(partition)), int(offset), value.encode())
            for topic, partition, offset, value in zip(each, each, each, each, strict=True)
        ]


@contextmanager
def remote_libraries(bootstrap: str, directory: Path) -> Iterator[list[Library]]:
    """Return libraries whose programs run meanwhile; print why one cannot run here."""
    with Children(directory) as children:
        around = Surroundings(bootstrap, None, directory, children)
        found = []
        for name, start in _PROGRAMS.items():
            try:
                child = start(around)
            except Skipped as reason:
                print(f"without {name}: {reason}")
            else:
                found.append(_library(name, int(child.wait_for_line(r"port (\d+)")[1])))
        yield found


def _library(name: str, port: int) -> Library:
    return Library(
        name,
        lambda _: _Producer(port, "producer"),
        lambda _, group, partition: _Register(port, "register", group, *map(str, partition)),
        lambda _, group, topic: _Member(port, "member", group, topic),
        rejoins=name in _REJOINING,
    )


def _start_java(around: Surroundings, protocol: str) -> Child:
    return start_java(around, "FailoverClients", around.bootstrap, protocol)


def _start_franz_go(around: Surroundings) -> Child:
    program = around.directory / "franz-go"
    build_source(program, SOURCES / "failover_clients.go", MODULE, VERSION)
    return around.children.start("franz-go-clients", [str(program / "program"), around.bootstrap])


_PROGRAMS: dict[str, Callable[[Surroundings], Child]] = {
    "java": lambda around: _start_java(around, "classic"),
    "java-consumer": lambda around: _start_java(around, "consumer"),
    "franz-go": _start_franz_go,
}
# docs/clients.md has the reason.
_REJOINING = {"franz-go"}
