"""Loading a partition of the group log: a million records, from opening the log to the first
response. There is no broker and no socket: the server's own code runs over a real directory.

Beside the rate there are two ratios: to reading the bytes of the file without decoding them, and to
a plain loop that makes every batch, record, key and value an object. All times are CPU time of one
thread, so that other work on the machine matters little.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.measures import Metric, Outcome, Row, Scenario, known
from benchmarks.session import Job
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.protocol.messages.log_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from coterie.protocol.messages.record_types import UnknownKey
from coterie.protocol.records import decode_records, encode_batch, iterate_batches
from coterie.server.coordinators.loading import LogReplay
from coterie.storage.filesystem import OsFileSystem
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig

RECORDS = 1_000_000
QUICK_RECORDS = 50_000
# The plain loop takes ten times as long, so it reads only a part of the log.
PLAIN_RECORDS = 50_000
# Kafka's segment.bytes of __consumer_offsets.
CONFIG = LogConfig(segment_bytes=104_857_600, compacted=True)
START_MS = 1_700_000_000_000
_READ_BYTES = 1 << 20

RECORDS_PER_S = Metric("records_per_s", "records/s", 0, more_is_better=True)
TO_READ = Metric("times_bare_read", "times the\nbare read", 0)
TO_PLAIN = Metric("plain_loop_ratio", "plain loop\ntakes times", 1, more_is_better=True)
WORST_SLICE_MS = Metric("p99_slice_ms", "p99 slice\nms", 1)


class Shape(NamedTuple):
    """The content of a log: records in each batch, and different keys."""

    records_per_batch: int
    keys: int

    def limited(self, records: int) -> Shape:
        """Return this shape for a log of so many records: each key is written ten times."""
        return self._replace(keys=min(self.keys, records // 10))


# Also those of the compaction scenario.
SHAPES = {
    "single_few": Shape(1, 50),
    "single_many": Shape(1, 100_000),
    "thirteen_few": Shape(13, 50),
    "thirteen_many": Shape(13, 100_000),
}


def shape_rows(goals: Mapping[str, float]) -> tuple[Row, ...]:
    """Return one row for each shape, all with the same goals."""
    return tuple(
        Row(
            key,
            f"{'one' if shape.records_per_batch == 1 else shape.records_per_batch}-record batches, "
            f"{shape.keys:,} keys",
            goals,
        )
        for key, shape in SHAPES.items()
    )


def write_log(directory: str, records: int, shape: Shape, config: LogConfig = CONFIG) -> None:
    """Write a log of offset commits whose keys repeat in turn, as those of consumers do."""
    in_batch, keys = shape
    block: list[bytes] = []
    for first in range(0, max(keys, 10_000), in_batch):
        pairs = []
        for number in range(first, first + in_batch):
            key = OffsetCommitKey(
                group=f"group-{number % keys % 1000:05}", topic="topic", partition=number % keys
            )
            value = OffsetCommitValue(
                offset=number,
                leader_epoch=3,
                metadata="",
                commit_timestamp=START_MS + number,
                topic_id=b"0123456789abcdef",
            )
            pairs.append((encode_key(key), encode_value(value)))
        block.append(encode_batch(pairs, 0, START_MS))
    log = Log.open(OsFileSystem(), directory, config)
    while log.log_end_offset < records:
        for first in range(0, len(block), 500):
            log.append(b"".join(block[first : first + 500]))
    log.close()


def _load(directory: str) -> tuple[float, int, list[float]]:
    """Load a log as the server does; return CPU seconds, records, and CPU ms of each slice."""
    began = time.process_time()
    log = Log.open(OsFileSystem(), directory, CONFIG)
    coordinator = GroupCoordinator(GroupConfig(offsets_topic_num_partitions=1), str, START_MS)
    coordinator.begin_load(0, 0)

    def replay(key: bytes | None, value: bytes | None) -> None:
        coordinator.replay(0, key, value)

    reading = LogReplay(log, coordinator.reader(), replay, partial(coordinator.replay_open, 0))
    slices = []
    before = time.process_time()
    while reading.step():
        now = time.process_time()
        slices.append((now - before) * 1e3)
        before = now
    coordinator.finish_load(0, START_MS)
    took_s = time.process_time() - began
    log.abandon()
    return took_s, reading.reader.records, sorted(slices)


def _bare_read_s(directory: str) -> float:
    began = time.process_time()
    for path in Path(directory).glob("*.log"):
        with path.open("rb", buffering=0) as file:
            while file.read(_READ_BYTES):
                pass
    return time.process_time() - began


def _plain_s_per_record(directory: str) -> float:
    began = time.process_time()
    log = Log.open(OsFileSystem(), directory, CONFIG)
    opened_s, loop_began = time.process_time() - began, time.process_time()
    newest, count = {}, 0
    for data in log.chunks():
        for position, header in iterate_batches(data):
            for record in decode_records(data, header, position):
                assert record.key is not None
                key = decode_key(record.key)
                assert not isinstance(key, UnknownKey)
                newest[record.key] = (key, decode_value(key, record.value))
                count += 1
        if count >= PLAIN_RECORDS:
            break
    loop_s = time.process_time() - loop_began
    total = log.log_end_offset
    log.abandon()
    return loop_s / count + opened_s / total


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row."""
    records = QUICK_RECORDS if job.quick else RECORDS
    shape = SHAPES[row.key].limited(records)
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as directory:
        write_log(directory, records, shape)
        bare_s = _bare_read_s(directory)
        took_s, loaded, slices = _load(directory)
        assert loaded >= records, "the whole log was read"
        plain_s = _plain_s_per_record(directory) * loaded
    numbers = known(
        records_per_s=loaded / took_s,
        times_bare_read=took_s / bare_s if bare_s else None,
        plain_loop_ratio=plain_s / took_s,
        p99_slice_ms=slices[int(0.99 * (len(slices) - 1))],
    )
    return Outcome(numbers)


SCENARIO = Scenario(
    key="load",
    title="Load of a partition of 1,000,000 records (CPU time; the goal is 400,000 records/s)",
    rows=shape_rows({RECORDS_PER_S.key: 400_000}),
    metrics=(RECORDS_PER_S, TO_READ, TO_PLAIN, WORST_SLICE_MS),
    primary=RECORDS_PER_S,
    run=run,
    brokerless=True,
)
