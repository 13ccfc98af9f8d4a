"""What the tests produce and what they read, in words that fit all three libraries."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

# A read that finds nothing for this long has lost its records.
READ_LIMIT_S = 30.0


@dataclass(frozen=True)
class Message:
    """A record to produce; what is left out is the client's and the broker's choice."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True)
class Received:
    """A record as a consumer handed it out."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


@dataclass(frozen=True)
class Sending:
    """How to produce: the settings every client has, under Kafka's names."""

    acks: str = "all"
    compression: str = "none"
    idempotent: bool = False
    max_request_bytes: int = 1_048_576
    linger_ms: int = 5


ORDINARY = Sending()


@dataclass(frozen=True)
class Reading:
    """How a `Reader` reads: subscribed to a topic or a pattern, or from fixed partitions."""

    group: str
    topic: str = ""
    pattern: str | None = None
    fixed_partitions: tuple[int, ...] = ()
    auto_offset_reset: str = "earliest"
    auto_commit_ms: int | None = None
    metadata_max_age_ms: int = 60_000


class Reader(ABC):
    """A consumer inside the test's own process; partitions are those of its one topic."""

    @abstractmethod
    def poll(self, at_most: int, seconds: float) -> list[Received]:
        """What one poll gives; errors of the client come out as they are."""

    @abstractmethod
    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        """Commit synchronously."""

    @abstractmethod
    def committed(self, partition: int) -> tuple[int, str] | None:
        """The committed (offset, metadata), asked of the coordinator."""

    @abstractmethod
    def seek(self, partition: int, offset: int) -> None:
        """Read on from that offset."""

    @abstractmethod
    def position(self, partition: int) -> int:
        """The offset of the record that comes next."""

    @abstractmethod
    def pause(self, partition: int) -> None:
        """Hand out nothing of that partition for now."""

    @abstractmethod
    def resume(self, partition: int) -> None:
        """The opposite of pause."""

    @abstractmethod
    def assigned(self) -> set[tuple[str, int]]:
        """Topic and partition of what it owns now."""

    @abstractmethod
    def _close(self) -> None:
        """Leave the group and disconnect."""

    _open = True

    def close(self) -> None:
        """Leave the group and disconnect; the second time is nothing."""
        if self._open:
            self._open = False
            self._close()

    def read(self, count: int) -> list[Received]:
        """Read exactly that many records; fewer within the time limit is an error."""
        received: list[Received] = []
        deadline = time.monotonic() + READ_LIMIT_S
        while len(received) < count:
            assert time.monotonic() < deadline, f"{len(received)} of {count}: {received[-3:]}"
            received += self.poll(count - len(received), 1.0)
        return received

    def read_whatever(self, seconds: float) -> list[Received]:
        """Everything that comes within that time: for records that must not come."""
        received: list[Received] = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            received += self.poll(500, 0.1)
        return received

    def wait_assigned(self) -> set[tuple[str, int]]:
        """Wait until it owns something."""
        deadline = time.monotonic() + READ_LIMIT_S
        while not self.assigned():
            assert time.monotonic() < deadline, "still without an assignment"
            received = self.poll(1, 0.1)
            assert not received, f"a record before anybody asked: {received}"
        return self.assigned()


class Library(Protocol):
    """One client library behind the calls the tests need."""

    name: str

    def compressions(self) -> set[str]:
        """The codecs this installation can both write and read."""

    def produce(
        self, bootstrap: str, topic: str, messages: list[Message], sending: Sending = ORDINARY
    ) -> list[int | None]:
        """Produce all, wait for the answers; returns the offset the client gives each message.

        With acks=0 there is no answer to learn it from: aiokafka and librdkafka say None,
        kafka-python counts from 0 within the batch.
        """

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Received]:
        """Read `count` records from the beginning of a topic's partitions, without a group."""

    def reader(self, bootstrap: str, reading: Reading) -> Reader:
        """A consumer to play with."""
