"""Verbs of large batches of records."""

import random
import time
from collections.abc import Iterator
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.compression import FREE_DECOMPRESSED_BYTES
from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import Compression
from tests.soak.turns.requests import frame, newest
from tests.soak.turns.session import Session, Verb
from tests.unit.server.produced import batch

_PARTITIONS = 50
_VALUE = b"value %d " * 100
# The share of a compressed record that compresses to nothing, the rest to a half: together to a
# fourth or so, which is far from any limit.
_SAME_PART = 2


def batches(session: Session) -> Iterator[Verb]:
    """Yield the verbs; old records would be rolled and removed at once, so these are new."""
    size, now_ms = session.sizes.request_bytes, time.time_ns() // 1_000_000
    records = [_VALUE] * (size // len(_VALUE) // 4)
    text = random.Random(1).randbytes(size // 2 // _SAME_PART).hex().encode()
    text += bytes(size - len(text))
    compressible = [text[at : at + len(_VALUE)] for at in range(0, size // 4, len(_VALUE))]
    # More than any ratio is allowed for.
    bomb = max(size, 2 * FREE_DECOMPRESSED_BYTES)
    for name, values, compression in (
        ("one large batch", [bytes(size)], Compression.NONE),
        ("many records", records, Compression.NONE),
        ("a compressed batch", [text], Compression.ZSTD),
        ("compressed records", compressible, Compression.GZIP),
    ):
        yield session.verb(
            f"Produce of {name}",
            ApiKey.PRODUCE,
            lambda values=values, compression=compression: [  # type: ignore[misc]
                _produce(batch(*values, timestamp_ms=now_ms, compression=compression))
            ],
        )
    yield session.verb(
        "Produce of what is too large decompressed",
        ApiKey.PRODUCE,
        lambda: [_produce(batch(bytes(bomb), timestamp_ms=now_ms, compression=Compression.ZSTD))],
        expected=ErrorCode.UNKNOWN_SERVER_ERROR,
    )
    indexes = range(min(_PARTITIONS, session.sizes.wide))
    yield session.verb(
        "Produce to 50 partitions",
        ApiKey.PRODUCE,
        lambda: [_produce(*(batch(bytes(size // 50), timestamp_ms=now_ms) for _ in indexes))],
    )
    asked = [
        {"partition": index, "fetch_offset": 0, "partition_max_bytes": size} for index in indexes
    ]
    fetch = frame(
        ApiKey.FETCH,
        newest(ApiKey.FETCH),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=size,
        topics=[{"topic": "w", "partitions": asked}],
    )
    yield session.verb("Fetch of 50 partitions", ApiKey.FETCH, lambda: [fetch])


def _produce(*records: bytes) -> bytes:
    parts = [{"index": index, "records": each} for index, each in enumerate(records)]
    fields: dict[str, Any] = {"acks": -1, "timeout_ms": 60_000}
    topics = [{"name": "w", "partition_data": parts}]
    return frame(ApiKey.PRODUCE, newest(ApiKey.PRODUCE), **fields, topic_data=topics)
