"""The records of a partition, read from its log in the broker's thread."""

from collections.abc import Iterator
from typing import NamedTuple

from coterie.near_names import did_you_mean
from coterie.protocol.records import Record as LogRecord
from coterie.protocol.records import decode_records, iterate_batches
from coterie.server.broker import Broker
from coterie.server.logs.partition import Partition
from coterie.storage.log import Log
from coterie.testing.errors import WrongUse

_READ_BYTES = 1 << 22


class Record(NamedTuple):
    """A record of a topic.

    Attributes:
        partition, offset: where it is.
        key, value: its bytes; None for null.
        headers: names and values.
        timestamp_ms: epoch milliseconds.
    """

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def no_topic(server: Broker, name: str) -> str:
    """Return the error about a topic that does not exist."""
    topics = (each.name for each in server.topics.by_name.values() if not each.is_own)
    return f"topic '{name}' does not exist{did_you_mean(name, topics, 'topics')}"


async def topic_records(server: Broker, topic: str, partition: int | None) -> list[Record]:
    """Return the records of a topic; see `Broker.records`."""
    found = server.topics.find(topic)
    if found is None:
        raise WrongUse(no_topic(server, topic))
    wanted = range(len(found.partitions)) if partition is None else [partition]
    records = []
    for index in wanted:
        one = found.partition(index)
        if one is None:
            raise WrongUse(f"topic '{topic}' has no partition {index}")
        records += [
            Record(index, each.offset, each.key, each.value, each.headers, each.timestamp_ms)
            for each in partition_records(await opened_log(server, one))
        ]
    return records


def partition_records(log: Log, start: int = 0) -> Iterator[LogRecord]:
    """Yield the records of a partition from an offset on; control records are left out."""
    start = offset = max(start, log.log_start_offset)
    while offset < log.log_end_offset:
        data = log.read(offset, _READ_BYTES)
        for position, header in iterate_batches(data):
            offset = header.next_offset
            if not header.is_control:
                records = decode_records(data, header, position)
                yield from (each for each in records if each.offset >= start)


async def opened_log(server: Broker, partition: Partition) -> Log:
    """Return the log of a partition, which is opened if no request has used it yet.

    Raises:
        WrongUse: it is offline, because it could not be opened.
    """
    opener = server.logs.opener
    opener.open_now(partition)
    if partition.opened_log is None:
        # A request is opening it.
        opened = server.loop.create_future()
        opener.open([partition], lambda: opened.set_result(None))
        await opened
    if partition.opened_log is None:
        raise WrongUse(f"{partition} is offline: KAFKA_STORAGE_ERROR: {partition.failure}")
    return partition.log
