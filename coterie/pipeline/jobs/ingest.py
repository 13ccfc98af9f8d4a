"""From logs to bronze: copy new records as bytes, and damage, range by range."""

from collections.abc import Iterable
from typing import NamedTuple

from coterie.pipeline.codec.views import quarantined
from coterie.pipeline.engine import note_rows_read
from coterie.pipeline.jobs.inputs import NewRecords, Plan
from coterie.pipeline.jobs.job import INGEST, Job
from coterie.pipeline.kafka_input import TABLE_OF
from coterie.pipeline.options import LogOptions
from coterie.pipeline.part_files import PartFiles
from coterie.pipeline.ranges import LogRange, packed, read_range
from coterie.pipeline.tables import with_input

QUARANTINE = "quarantine"


class CopyTask(NamedTuple):
    """One task of copying: ranges of one topic of one input."""

    input: str
    topic: str
    ranges: tuple[LogRange, ...]

    @property
    def size_bytes(self) -> int:
        """About how much log that is."""
        return sum(each.size_bytes for each in self.ranges)


def ingest(job: Job, planned: Plan, *, crc: bool = True) -> None:
    """Copy new records, as bytes, and damage to bronze."""
    if not planned.new:
        return
    tasks = copy_tasks(planned.new)
    tables = [*dict.fromkeys(TABLE_OF[task.topic] for task in tasks), QUARANTINE]
    job.expect(len(tables))

    def work(number: int, files: PartFiles) -> None:
        copy(tasks[number], files, crc=crc)

    job.write_files(INGEST, tables, len(tasks), work)


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


def copy(task: CopyTask, files: PartFiles, *, crc: bool) -> int:
    """Copy the records of a task, and return their number.

    Args:
        task: the ranges.
        files: gets the rows.
        crc: whether to check checksums.
    """
    table = TABLE_OF[task.topic]
    count = 0
    for log_range in task.ranges:
        for step in read_range(log_range, table, crc=crc):
            count += step.rows.num_rows
            note_rows_read(step.rows.num_rows)
            files.write(table, with_input(task.input, table, step.rows))
            if step.damages:
                rows = quarantined(step.source, step.damages)
                files.write(QUARANTINE, with_input(task.input, QUARANTINE, rows))
    return count
