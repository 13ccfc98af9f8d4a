"""The tasks that workers do file by file: from logs to bronze, and from bronze to commits."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.pipeline.codec.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.codec.views import quarantined
from coterie.pipeline.jobs.inputs import NewRecords
from coterie.pipeline.jobs.part_files import PartFiles
from coterie.pipeline.kafka_input import TABLE_OF
from coterie.pipeline.options import LogOptions
from coterie.pipeline.ranges import LogRange, read_range
from coterie.pipeline.source import packed
from coterie.pipeline.tables import with_input
from coterie.pipeline.transforms.decoding import view_of
from coterie.protocol.record_batch_layout import TRANSACTIONAL

QUARANTINE = "quarantine"

# The rows that are decoded at a time: enough for numpy, and few enough for the processor's cache.
_DECODED_ROWS = 1 << 16
# A follower appends a hundred small files within half a minute, so a task decodes several. This is
# about 600,000 commits, which take ten times as long as the fixed cost of a task.
_DECODED_BYTES = 8 << 20


class CopyTask(NamedTuple):
    """One task of copying: ranges of one topic of one input."""

    input: str
    topic: str
    ranges: tuple[LogRange, ...]

    @property
    def size_bytes(self) -> int:
        """About how much log that is."""
        return sum(each.size_bytes for each in self.ranges)


def copy_tasks(new: Iterable[NewRecords]) -> list[CopyTask]:
    """Return the tasks for new records, the largest first.

    Args:
        new: the planned records.
    """
    new = list(new)
    total = sum(each.size_bytes for one in new for each in one.ranges)
    target = LogOptions(path="").split_target(total)
    tasks = [
        CopyTask(one.input, one.topic, ranges)
        for one in new
        for ranges in packed(one.ranges, target)
    ]
    return sorted(tasks, key=lambda task: -task.size_bytes)


def copying(tasks: list[CopyTask], *, crc: bool) -> Callable[[int, PartFiles], None]:
    """Return a function for `write_parts` that copies records as bytes, and damage.

    Args:
        tasks: the tasks by number.
        crc: whether to check checksums.
    """

    def copy(number: int, files: PartFiles) -> None:
        task = tasks[number]
        table = TABLE_OF[task.topic]
        for log_range in task.ranges:
            for step in read_range(log_range, table, crc=crc):
                files.write(table, with_input(task.input, table, step.rows))
                if step.damages:
                    rows = quarantined(step.source, step.damages)
                    files.write(QUARANTINE, with_input(task.input, QUARANTINE, rows))

    return copy


def decoding_tasks(files: Iterable[str]) -> list[list[str]]:
    """Return the tasks for files of bronze: one for a large file, one for several small files.

    Args:
        files: Parquet files.
    """
    tasks: list[list[str]] = []
    room = 0
    for path in files:
        size_bytes = os.path.getsize(path)
        if size_bytes > room:
            tasks.append([])
            room = _DECODED_BYTES
        room -= size_bytes
        tasks[-1].append(path)
    return tasks


def decoding(tasks: list[list[str]], labels: Mapping[str, str]) -> Callable[[int, PartFiles], None]:
    """Return a function for `write_parts` that decodes the commits outside of transactions.

    Args:
        tasks: the files of each task (`decoding_tasks`).
        labels: by input the label of its groups [pipeline/group-labels].
    """
    decode = view_of("commits", dict(labels))

    def decode_files(number: int, written: PartFiles) -> None:
        for path in tasks[number]:
            with pq.ParquetFile(path) as bronze:
                batches = bronze.iter_batches(_DECODED_ROWS)
                for rows in decode(map(_plain_commits, batches)):
                    written.write("offset_commits", rows)

    return decode_files


def _plain_commits(rows: pa.RecordBatch) -> pa.RecordBatch:
    is_commit = pc.is_in(rows.column("key_type"), pa.array(COMMIT_KEY_TYPES, pa.int16()))
    # Where the attributes are not known, the reader has left out what does not count.
    attributes = rows.column("attributes").fill_null(0)
    is_plain = pc.equal(pc.bit_wise_and(attributes, pa.scalar(TRANSACTIONAL, pa.int16())), 0)
    return rows.filter(pc.and_(is_commit, is_plain))
