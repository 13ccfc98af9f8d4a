"""Batches and requests for the tests of Produce and Fetch."""

import struct
from typing import Any

from coterie.protocol import checksum
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
)
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.records import (
    Compression,
    Record,
    decode_records,
    encode_records,
    iterate_batches,
)
from tests.unit.server.manual import Client
from tests.unit.server.manual_loop import START_MS


def batch(
    *values: bytes,
    key: bytes | None = b"k",
    timestamp_ms: int = START_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    compression: Compression = Compression.NONE,
    transactional: bool = False,
) -> bytes:
    """Encode a batch as a producer does; `producer` is its id, epoch and base sequence."""
    records = [Record(offset, timestamp_ms, key, value) for offset, value in enumerate(values)]
    return encode_records(
        records,
        compression=compression,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=transactional,
    )


def damaged(data: bytes, position: int, fmt: str, value: int) -> bytes:
    """Change a field of a batch and correct the checksum."""
    out = bytearray(data)
    struct.pack_into(fmt, out, position, value)
    struct.pack_into(">I", out, 17, checksum.crc32c(bytes(out[21:])))
    return bytes(out)


def produce_request(
    records: bytes | None,
    topic: str = "t",
    partition: int = 0,
    *,
    acks: int = -1,
    topic_id: bytes = bytes(16),
) -> ProduceRequest:
    """Make a request for one partition."""
    asked = ProduceRequestPartition(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[ProduceRequestTopic(name=topic, topic_id=topic_id, partition_data=[asked])],
    )


def produce(client: Client, records: bytes | None, version: int = 9, **fields: Any) -> Any:
    """Produce to one partition; return the partition's part of the response."""
    answer = client.call(produce_request(records, **fields), version)
    return answer.responses[0].partition_responses[0]


def fetch_request(
    *partitions: tuple[int, int], topic: str = "t", max_wait_ms: int = 0, **fields: Any
) -> FetchRequest:
    """Make a request for (partition, offset) pairs of one topic."""
    per_partition = {
        name: fields.pop(name)
        for name in ("current_leader_epoch", "last_fetched_epoch")
        if name in fields
    }
    limit = fields.pop("partition_max_bytes", 1 << 20)
    topic_id = fields.pop("topic_id", bytes(16))
    asked = [
        FetchRequestPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=limit, **per_partition
        )
        for index, offset in partitions
    ]
    values = {"min_bytes": 1, "max_bytes": 1 << 25, **fields}
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        topics=[FetchRequestTopic(topic=topic, topic_id=topic_id, partitions=asked)],
        **values,
    )


def values_of(data: bytes) -> list[bytes | None]:
    """Return the values of all records in some batches."""
    return [
        record.value
        for position, header in iterate_batches(data)
        for record in decode_records(data, header, position)
    ]
