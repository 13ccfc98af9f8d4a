"""Logs for benchmarks, written by our own encoder in the layout of a data directory.

They contain commits of many groups as a coordinator writes them: value version 4 with a topic id,
several records in a batch, each group in the log partition that its hash selects.
"""

import os
import random
import struct
from collections.abc import Sequence

from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue, encode_key
from coterie.protocol.records import encode_batch
from coterie.protocol.topic_names import OFFSETS_TOPIC

START_MS = 1_760_000_000_000
_INDEX_INTERVAL_BYTES = 4096


class SegmentWriter:
    """A writer of batches to a partition; it rolls segments and writes `.index` files."""

    def __init__(self, directory: str, segment_bytes: int) -> None:
        os.makedirs(directory, exist_ok=True)
        self._directory = directory
        self._segment_bytes = segment_bytes
        self.next_offset = 0
        self._open()

    def _open(self) -> None:
        self._base = self.next_offset
        self._stem = os.path.join(self._directory, f"{self._base:020d}")
        self._log = open(self._stem + ".log", "wb")  # noqa: SIM115 - closed by `close`
        self._index = bytearray()
        self._size = self._since_entry = 0

    def append(self, pairs: Sequence[tuple[bytes, bytes | None]], timestamp_ms: int) -> None:
        """Append one batch."""
        batch = encode_batch(pairs, self.next_offset, timestamp_ms)
        if self._size and self._size + len(batch) > self._segment_bytes:
            self.close()
            self._open()
        last_offset = self.next_offset + len(pairs) - 1
        if self._since_entry > _INDEX_INTERVAL_BYTES:
            self._index += struct.pack(">ii", last_offset - self._base, self._size)
            self._since_entry = 0
        self._log.write(batch)
        self._size += len(batch)
        self._since_entry += len(batch)
        self.next_offset += len(pairs)

    def flush(self) -> None:
        """Make the appended batches visible to readers."""
        self._log.flush()

    def close(self) -> None:
        """Finish the segment and write its index."""
        self._log.close()
        with open(self._stem + ".index", "wb") as file:
            file.write(self._index)


def write_commits(
    path: str,
    commits: int,
    *,
    log_partitions: int = 1,
    groups: int = 400,
    topic_partitions: int = 100,
    records_per_batch: float = 13.5,
    segment_bytes: int = 100 << 20,
    seed: int = 1,
) -> int:
    """Write a data directory of offset commits, and return its size in bytes.

    A batch has `records_per_batch` records on average, of one group, as a consumer of several
    partitions commits them.
    """
    rng = random.Random(seed)
    writers = [
        SegmentWriter(os.path.join(path, f"{OFFSETS_TOPIC}-{number}"), segment_bytes)
        for number in range(log_partitions)
    ]
    topic_id = rng.randbytes(16)
    keys = []
    for number in range(groups):
        group = f"consumer-group-{number}"
        writer = writers[partition_for(group, log_partitions)]
        topic = f"orders-{number % 20}"
        group_keys = [
            encode_key(OffsetCommitKey(group=group, topic=topic, partition=partition))
            for partition in range(topic_partitions)
        ]
        keys.append((writer, group_keys))
    encode = OffsetCommitValue.encoder(4)
    prefix = (4).to_bytes(2)
    written = 0
    now_ms = START_MS
    while written < commits:
        writer, group_keys = keys[rng.randrange(groups)]
        count = 1
        if records_per_batch > 1:
            count = rng.randint(1, int(2 * records_per_batch - 1))
        count = min(count, topic_partitions, commits - written)
        first = rng.randrange(topic_partitions)
        now_ms += 1
        value = prefix + encode(
            OffsetCommitValue(
                offset=written, leader_epoch=3, metadata="", commit_timestamp=now_ms,
                topic_id=topic_id,
            )
        )  # fmt: skip
        pairs = [(group_keys[(first + each) % topic_partitions], value) for each in range(count)]
        writer.append(pairs, now_ms)
        written += count
    for writer in writers:
        writer.close()
    return sum(
        entry.stat().st_size
        for number in range(log_partitions)
        for entry in os.scandir(os.path.join(path, f"{OFFSETS_TOPIC}-{number}"))
        if entry.name.endswith(".log")
    )
