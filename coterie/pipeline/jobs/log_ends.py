"""The log ends from which lag is computed: of the clusters that were read, or of a user's file."""

import csv
import os
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.pipeline.errors import StoreError
from coterie.pipeline.jobs.job import Job
from coterie.pipeline.tables import TABLES

_OPTION = "log_ends"
_FILE_COLUMNS = ("topic", "partition", "at_ts", "log_end_offset")


def files_of(job: Job, given: str | None) -> list[str]:
    """Return the Parquet files with the log ends of a run; none if they are not known.

    Args:
        job: the job.
        given: the path of the user's file, Parquet or CSV with a header; None for the log ends that
            were requested from clusters.

    Raises:
        StoreError: the file cannot be read.
    """
    if given is None:
        return job.store.files(_OPTION)
    if not given.endswith(".csv"):
        return [given]
    path = os.path.join(job.scratch, "log-ends.parquet")
    pq.write_table(_read_csv(given), path)
    return [path]


def are_new(job: Job, given: str | None) -> bool:
    """Return whether the lags are older than the log ends, and note the user's file in the job."""
    if given is None:
        return bool(job.store.parts(_OPTION, newer_than="lag_1m"))
    seen = job.options[_OPTION] = _fingerprint(given)
    known = job.store.runs[-1].get("options", {}) if job.store.runs else {}
    return seen is None or bool(seen != known.get(_OPTION))


def _fingerprint(path: str) -> list[Any] | None:
    """Return path, size and time of a file; None for what cannot be compared."""
    if not os.path.isfile(path):
        return None
    status = os.stat(path)
    return [os.path.realpath(path), status.st_size, status.st_mtime_ns]


def _read_csv(path: str) -> pa.Table:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = [_row(line) for line in csv.DictReader(file)]
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(
            f"{path} cannot be read as a table of log ends: {error!r}. It needs a header and the"
            f" columns {', '.join(_FILE_COLUMNS)}"
        ) from None
    return pa.Table.from_pylist(rows, TABLES[_OPTION].schema)


def _row(line: dict[str, str]) -> dict[str, Any]:
    at = datetime.fromisoformat(line["at_ts"])
    end = line["log_end_offset"]
    return {
        "input": line.get("input") or None,
        "topic": line["topic"],
        "partition": int(line["partition"]),
        "at_ts": at if at.tzinfo is not None else at.replace(tzinfo=UTC),
        "log_end_offset": int(end) if end else None,
    }
