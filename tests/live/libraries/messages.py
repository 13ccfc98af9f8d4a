"""What the tests produce and read, in terms that fit all three libraries."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

# A read that gets nothing for this long has lost its records.
READ_LIMIT_S = 60.0


@dataclass(frozen=True)
class Message:
    """A record to produce; what is None is chosen by the client or the broker."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True)
class Received:
    """A record as a consumer returned it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


@dataclass(frozen=True)
class Sending:
    """How to produce: settings that every library has, and those of its own for its security."""

    acks: str = "all"
    compression: str = "none"
    idempotent: bool = False
    max_request_bytes: int = 1_048_576
    linger_ms: int = 5
    security: Mapping[str, Any] = field(default_factory=dict)


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
    fetch_max_wait_ms: int = 100
    security: Mapping[str, Any] = field(default_factory=dict)


class Reader(ABC):
    """A consumer in the test's own process; partitions are those of its one topic."""

    @abstractmethod
    def poll(self, at_most: int, seconds: float) -> list[Received]:
        """Return the records of one poll; errors of the client are raised unchanged."""

    @abstractmethod
    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        """Commit synchronously."""

    @abstractmethod
    def committed(self, partition: int) -> tuple[int, str] | None:
        """Return the committed offset and metadata, read from the coordinator."""

    @abstractmethod
    def seek(self, partition: int, offset: int) -> None:
        """Continue reading at an offset."""

    @abstractmethod
    def position(self, partition: int) -> int:
        """Return the offset of the next record."""

    @abstractmethod
    def pause(self, partition: int) -> None:
        """Return no records of this partition until `resume`."""

    @abstractmethod
    def resume(self, partition: int) -> None:
        """End a pause."""

    @abstractmethod
    def assigned(self) -> set[tuple[str, int]]:
        """Return topic and partition of what it owns."""

    @abstractmethod
    def _close(self) -> None:
        """Leave the group and disconnect."""

    _open = True

    def close(self) -> None:
        """Leave the group and disconnect; closing it again has no effect."""
        if self._open:
            self._open = False
            self._close()

    def read(self, count: int) -> list[Received]:
        """Read exactly this many records; fewer within the time limit are an error."""
        received: list[Received] = []
        deadline = time.monotonic() + READ_LIMIT_S
        while len(received) < count:
            assert time.monotonic() < deadline, f"{len(received)} of {count}: {received[-3:]}"
            received += self.poll(count - len(received), 1.0)
        return received

    def read_for(self, seconds: float) -> list[Received]:
        """Return all records that arrive within some time."""
        received: list[Received] = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            received += self.poll(500, 0.1)
        return received

    def wait_assigned(self) -> set[tuple[str, int]]:
        """Wait until it owns a partition."""
        deadline = time.monotonic() + READ_LIMIT_S
        while not self.assigned():
            assert time.monotonic() < deadline, "still without an assignment"
            received = self.poll(1, 0.1)
            assert not received, f"an unexpected record: {received}"
        return self.assigned()


class Library(Protocol):
    """A client library."""

    name: str

    def compressions(self) -> set[str]:
        """Return the codecs that this installation can compress and decompress."""

    def produce(
        self, bootstrap: str, topic: str, messages: list[Message], sending: Sending = ORDINARY
    ) -> list[int | None]:
        """Produce messages, wait for the responses, and return the offset of each.

        With acks=0 there are no responses: aiokafka and librdkafka return None, and kafka-python
        counts from 0 within the batch.
        """

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Received]:
        """Read `count` records from the beginning of a topic's partitions, without a group."""

    def reader(self, bootstrap: str, reading: Reading) -> Reader:
        """Return a consumer."""


# kafka-python and aiokafka have the same names for settings and for the fields of a record.


def producer_settings(bootstrap: str, sending: Sending) -> dict[str, Any]:
    """Return the settings of a producer of kafka-python or aiokafka."""
    return {
        "bootstrap_servers": bootstrap,
        "acks": sending.acks if sending.acks == "all" else int(sending.acks),
        "compression_type": None if sending.compression == "none" else sending.compression,
        "enable_idempotence": sending.idempotent,
        "max_request_size": sending.max_request_bytes,
        "linger_ms": sending.linger_ms,
        **sending.security,
    }


def send_arguments(message: Message) -> dict[str, Any]:
    """Return the arguments of `send` of kafka-python or aiokafka."""
    return {
        "value": message.value,
        "key": message.key,
        "headers": list(message.headers),
        "partition": message.partition,
        "timestamp_ms": message.timestamp_ms,
    }


def consumer_settings(bootstrap: str) -> dict[str, Any]:
    """Return the settings of a consumer of kafka-python or aiokafka that joins no group."""
    return {
        "bootstrap_servers": bootstrap,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": 100,
    }


def reader_settings(bootstrap: str, reading: Reading) -> dict[str, Any]:
    """Return the settings of a consumer of kafka-python or aiokafka for a `Reader`."""
    return {
        "bootstrap_servers": bootstrap,
        "group_id": reading.group,
        "auto_offset_reset": reading.auto_offset_reset,
        "enable_auto_commit": reading.auto_commit_ms is not None,
        "auto_commit_interval_ms": reading.auto_commit_ms or 5000,
        "metadata_max_age_ms": reading.metadata_max_age_ms,
        "heartbeat_interval_ms": 300,
        "fetch_max_wait_ms": reading.fetch_max_wait_ms,
        **reading.security,
    }


def installed_codecs(codec: Any) -> set[str]:
    """Return the codecs that the module `codec` of kafka-python or aiokafka can use."""
    present = {
        "gzip": codec.has_gzip(),
        "snappy": codec.has_snappy(),
        "lz4": codec.has_lz4(),
        "zstd": codec.has_zstd(),
    }
    return {"none"} | {name for name, is_installed in present.items() if is_installed}


def as_received(record: Any) -> Received:
    """Return a ConsumerRecord of kafka-python or aiokafka in the terms of the tests."""
    return Received(
        record.partition,
        record.offset,
        record.key,
        record.value,
        tuple(record.headers),
        record.timestamp,
    )
