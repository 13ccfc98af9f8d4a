"""Log files for the tests of `coterie dump log` and `coterie compact`, and their JSON output."""

import json
from pathlib import Path
from typing import Any

from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from coterie.protocol.records import Compression, Record, encode_records

TIME = 1_700_000_000_000


def batch(
    base_offset: int,
    *pairs: tuple[bytes | None, bytes | None],
    compression: Compression = Compression.NONE,
) -> bytes:
    """Return a batch of records with timestamps one millisecond apart."""
    records = [
        Record(base_offset + n, TIME + base_offset + n, key, value)
        for n, (key, value) in enumerate(pairs)
    ]
    return encode_records(records, compression=compression)


def segment(directory: Path, *batches: bytes, base_offset: int = 0) -> Path:
    """Write the file of a segment, and its directory if it does not exist."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def commit(group: str, offset: int | None, topic: str = "t") -> tuple[bytes, bytes | None]:
    """Return the key and value of an offset commit, or of its tombstone."""
    key = encode_key(OffsetCommitKey(group=group, topic=topic, partition=0))
    if offset is None:
        return key, None
    value = OffsetCommitValue(offset=offset, metadata="note", commit_timestamp=TIME)
    return key, encode_value(value)


def generation(group: str) -> tuple[bytes, bytes]:
    """Return the key and value of a generation with one consumer."""
    subscription = ConsumerProtocolSubscription(topics=["t"])
    assigned = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic="t", partitions=[0, 1])]
    )
    member = GroupMetadataMember(
        member_id="m-1",
        client_id="c",
        client_host="/10.0.0.1",
        rebalance_timeout=300_000,
        session_timeout=45_000,
        subscription=encode_subscription(subscription),
        assignment=encode_assignment(assigned),
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=5, protocol="range", leader="m-1",
        current_state_timestamp=TIME, members=[member],
    )  # fmt: skip
    return encode_key(GroupMetadataKey(group=group)), encode_value(value)


def json_lines(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects that were printed one per line."""
    return [json.loads(line) for line in text.splitlines()]
