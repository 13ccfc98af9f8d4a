"""Data directories that tests write record by record, and the tables that runs make of them."""

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow.dataset as ds

from coterie.pipeline.store import Store
from coterie.protocol.control_records import encode_marker
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages import consumer_protocol as consumer
from coterie.protocol.messages import log_records as log
from coterie.protocol.messages.journal_records import encode_fact
from coterie.protocol.record_batch_layout import TRANSACTIONAL
from coterie.protocol.records import encode_batch
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC
from tests.pipeline.timeline.facts import HOST, partitions

NOW_MS = 1_760_000_040_000  # a full minute


class Written(NamedTuple):
    """A record: its offset, its key and its batch."""

    offset: int
    key: bytes | None
    batch: bytes


class Directory:
    """A data directory in memory; `write` writes all of it."""

    def __init__(self, path: Any, cluster_id: str | None = None, log_partitions: int = 2) -> None:
        self.path = str(path)
        self.log_partitions = log_partitions
        self.logs: dict[str, list[Written]] = {}
        os.makedirs(self.path)
        for number in range(log_partitions):
            self.logs[f"{OFFSETS_TOPIC}-{number}"] = []
        if cluster_id is not None:
            with open(os.path.join(self.path, "meta.properties"), "w", encoding="utf-8") as file:
                file.write(f"version=1\ncluster.id={cluster_id}\nnode.id=1\n")

    def commit(
        self, group: str, partition: str, offset: int | None, at_ms: int, producer: int = -1
    ) -> None:
        """Commit an offset of a partition such as `a-0`; None deletes it.

        With a producer the commit is in its transaction.
        """
        ((topic, number),) = partitions(partition)
        key = log.encode_key(log.OffsetCommitKey(group=group, topic=topic, partition=number))
        value = None
        if offset is not None:
            value = log.encode_value(
                log.OffsetCommitValue(offset=offset, metadata="", commit_timestamp=at_ms)
            )
        self.append(self.home(group), key, value, at_ms, producer)

    def marker(self, group: str, producer: int, at_ms: int, *, commit: bool) -> None:
        """End a transaction."""
        home = self.home(group)
        offset = self._next(home)
        batch = encode_marker(offset, at_ms, producer, 0, commit=commit)
        self.logs[home].append(Written(offset, None, batch))

    def generation(
        self, group: str, number: int, at_ms: int, topics: str = "a", **assigned: str
    ) -> None:
        """Complete a generation; `assigned` has the partitions of each member."""
        subscription = consumer.encode_subscription(
            consumer.ConsumerProtocolSubscription(topics=topics.split())
        )
        members = [
            log.GroupMetadataMember(
                member_id=name,
                client_id=f"client-{name}",
                client_host=HOST,
                rebalance_timeout=60_000,
                session_timeout=10_000,
                subscription=subscription,
                assignment=_assignment(given),
            )
            for name, given in assigned.items()
        ]
        value = log.GroupMetadataValue(
            protocol_type="consumer",
            generation=number,
            protocol="range" if members else None,
            leader=next(iter(assigned), None),
            current_state_timestamp=at_ms,
            members=members,
        )
        key = log.encode_key(log.GroupMetadataKey(group=group))
        self.append(self.home(group), key, log.encode_value(value), at_ms)

    def tombstone(self, group: str, at_ms: int) -> None:
        """Delete a group."""
        self.append(
            self.home(group), log.encode_key(log.GroupMetadataKey(group=group)), None, at_ms
        )

    def facts(self, group: str, *facts: Any) -> None:
        """Append facts of a group to the journal."""
        name = f"{JOURNAL_TOPIC}-0"
        for fact in facts:
            key, value = encode_fact(group, fact)
            self.append(name, key, value, fact.at_ms)

    def misplace(self, group: str) -> None:
        """Move the last record of a group to another partition."""
        home = self.home(group)
        other = f"{OFFSETS_TOPIC}-{(int(home[-1]) + 1) % self.log_partitions}"
        last = self.logs[home].pop()
        offset = self._next(other)
        self.logs[other].append(last._replace(offset=offset, batch=_moved(last.batch, offset)))

    def compact(self) -> None:
        """Keep only the last record of every key, at its offset."""
        for name, records in self.logs.items():
            if name.startswith(OFFSETS_TOPIC):
                newest = {record.key: record.offset for record in records}
                self.logs[name] = [each for each in records if newest[each.key] == each.offset]

    def lose(self, group: str) -> None:
        """Lose all records of a group, which a broker must never do."""
        home = self.home(group)
        mark = group.encode()
        self.logs[home] = [each for each in self.logs[home] if mark not in (each.key or b"")]

    def write(self) -> str:
        """Write the directory, and return its path."""
        for name, records in self.logs.items():
            directory = os.path.join(self.path, name)
            os.makedirs(directory, exist_ok=True)
            with open(os.path.join(directory, f"{0:020d}.log"), "wb") as file:
                file.write(b"".join(record.batch for record in records))
        return self.path

    def home(self, group: str) -> str:
        """Return the name of the partition's directory that contains a group."""
        return f"{OFFSETS_TOPIC}-{partition_for(group, self.log_partitions)}"

    def _next(self, name: str) -> int:
        records = self.logs.setdefault(name, [])
        return records[-1].offset + 1 if records else 0

    def append(
        self, name: str, key: bytes, value: bytes | None, at_ms: int, producer: int = -1
    ) -> None:
        """Append a record to the directory of a partition."""
        offset = self._next(name)
        attributes = 0 if producer < 0 else TRANSACTIONAL
        batch = encode_batch(
            [(key, value)], offset, at_ms, attributes=attributes, producer_id=producer
        )
        self.logs[name].append(Written(offset, key, batch))


def _assignment(given: str) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions(given):
        topics.setdefault(topic, []).append(number)
    return consumer.encode_assignment(
        consumer.ConsumerProtocolAssignment(
            assigned_partitions=[
                consumer.TopicPartition(topic=topic, partitions=numbers)
                for topic, numbers in topics.items()
            ]
        )
    )


def _moved(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8) + batch[8:]


def table(path: str, name: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return these columns of a table's rows, sorted."""
    files = Store.reading(path).files(name)
    if not files:
        return []
    rows = ds.dataset(files, format="parquet").to_table(columns=list(columns)).to_pylist()
    found: Iterable[tuple[Any, ...]] = (tuple(row[column] for column in columns) for row in rows)
    return sorted(found, key=repr)
