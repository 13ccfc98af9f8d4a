"""A story of a whole broker and its clients in virtual time, and everything it leaves behind."""

import hashlib
import json
from typing import Any, NamedTuple

from coterie.address import Address
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.server.broker import Broker
from coterie.server.config.config import Config
from coterie.server.data_place import IN_MEMORY
from coterie.server.shared_parts import SharedParts
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.unit.server.groups import commit, committed, join, sync
from tests.unit.server.manual import COMMIT, Client, log_of
from tests.unit.server.manual_loop import ManualLoop
from tests.unit.server.produced import batch, fetch_request, produce_request
from tests.unit.server.virtual import VirtualEnvironment, complete, contents

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "log.retention.check.interval.ms": "60000",
    "log.cleaner.backoff.ms": "5000",
}


class Trace(NamedTuple):
    """What a story leaves behind.

    Attributes:
        responses: every byte that each connection was sent, with the time.
        files: the bytes of all files, after the broker has stopped.
        lines: the log of the broker.
    """

    responses: list[tuple[int, str, bytes]]
    files: dict[str, bytes]
    lines: list[str]

    @property
    def digest(self) -> str:
        """A short text that is the same for the same trace."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


class Story:
    """A broker with `--flush commit`, and its clients by name."""

    def __init__(self, seed: int, filesystem: MemoryFileSystem | None = None) -> None:
        self.loop = ManualLoop()
        self.environment = VirtualEnvironment(self.loop, seed)
        self.filesystem = MemoryFileSystem() if filesystem is None else filesystem
        self.responses: list[tuple[int, str, bytes]] = []
        self.clients: dict[str, Client] = {}
        self.broker = self._start()

    def _start(self) -> Broker:
        shared = SharedParts(
            Config(SETTINGS), IN_MEMORY, self.environment, flush=COMMIT, filesystem=self.filesystem
        )
        broker = Broker(shared)
        broker.advertise("PLAINTEXT", Address("127.0.0.1", 9092))
        complete(self.loop, broker.begin())
        return broker

    def kill(self) -> None:
        """Kill the broker, with everything that it had not done, and start another one."""
        self.broker._data._lock.release()
        self.loop.forget()
        self.clients.clear()
        self.broker = self._start()

    def client(self, name: str) -> Client:
        """Return a client, connected at its first use."""
        if name not in self.clients:
            client = self.clients[name] = Client(self.broker, name)
            client.transport.write = (  # type: ignore[method-assign]
                lambda data: self._written(name, client, bytes(data))
            )
        return self.clients[name]

    def _written(self, name: str, client: Client, data: bytes) -> None:
        self.responses.append((self.loop.clock(), name, data))
        client.transport.written.append(data)

    def ask(self, name: str, request: Any, version: int) -> Any:
        """Send a request and return its response, however long it takes."""
        client = self.client(name)
        client.send(request, version)
        self.loop.turn()
        answers = client.answers()
        while not answers:
            self.loop.jump()
            answers = client.answers()
        ((_, answer),) = answers
        return answer

    def stop(self) -> Trace:
        """Stop the broker and return the trace."""
        complete(self.loop, self.broker.stop())
        lines = [json.dumps(line, default=repr) for line in log_of(self.broker).lines]
        return Trace(self.responses, contents(self.filesystem), lines)


def settle(story: Story, members: dict[str, str]) -> int:
    """Let all members join and sync; return the generation."""
    for name, member_id in members.items():
        story.client(name).send(join(member_id), 9)
    answers: dict[str, Any] = {}
    while len(answers) < len(members):
        story.loop.jump()
        for name in members:
            for _, answer in story.client(name).answers():
                answers[name] = answer
    for name, answer in answers.items():
        story.client(name).send(sync(members[name], answer.generation_id, name.encode()), 5)
    story.loop.advance(10)
    for name in members:
        story.client(name).answers()
    return int(answers["a"].generation_id)


def tell(seed: int) -> Trace:
    """A group forms, commits, loses a member by a crash, goes on, and outlives its broker."""
    story = Story(seed)
    topics = [CreateTopicsRequestTopic(name="t", num_partitions=3, replication_factor=1)]
    story.ask("admin", CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
    for number in range(5):
        story.ask("producer", produce_request(batch(b"value %d" % number)), 9)
        story.loop.advance(7)
    members = {name: story.ask(name, join(), 9).member_id for name in ("a", "b", "c")}
    generation = settle(story, members)
    fields = {"generation_id_or_member_epoch": generation, "member_id": members["a"]}
    story.ask("a", commit(3, 0, 1, **fields), 8)
    # The third member dies without a word; the others notice when its session expires.
    story.client("c").connection.connection_lost(None)
    for _ in range(6):
        story.loop.advance(3000)
        for name in ("a", "b"):
            beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=members[name])
            story.ask(name, beat, 4)
    del members["c"]
    generation = settle(story, members)
    assert committed(story.client("a"), 0, 1) == [3, 3]
    # A long poll ends with the next record, another one with the broker.
    story.client("b").send(fetch_request((0, 5), max_wait_ms=60_000), 11)
    story.ask("producer", produce_request(batch(b"more")), 9)
    story.loop.advance(10)
    ((_, fetched),) = story.client("b").answers()
    assert fetched.responses[0].partitions[0].records
    story.client("b").send(fetch_request((0, 6), max_wait_ms=60_000), 11)
    story.kill()
    assert committed(story.client("a"), 0, 1) == [3, 3]
    fields |= {"generation_id_or_member_epoch": generation}
    committing = story.ask("a", commit(6, 0, **fields), 8)
    assert committing.topics[0].partitions[0].error_code == 0
    return story.stop()
