"""Measure the pipeline: `python -m benchmarks_pipeline [--only PART]... [--rounds N]`.

Parts: codec, source (the data source in Spark), tables (10 M commits and 10,000 generations, to
gold), report (a page of 1,000 rebalances), live (following). Parts that use Spark run in processes
of their own.

Every figure is the best of several warm rounds. It is printed next to the figure with which it is
compared in the same run, because other load on the machine changes both, and with the load average.
"""

import argparse
import functools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from benchmarks_pipeline.logs import write_commits
from benchmarks_pipeline.scan import SCAN, TUPLES
from coterie.pipeline.ranges import LogRange, read_range
from coterie.protocol.raw_records import open_body, split_records
from coterie.protocol.records import check_crc, iterate_batches
from coterie.protocol.topic_names import OFFSETS_TOPIC

# The other parts are modules of the same name.
_HERE = ("codec", "source")
PARTS = (*_HERE, "tables", "report", "live")

_VALUE_HEAD = struct.Struct(">hqiB")
_INT64 = struct.Struct(">q")


def best(rounds: int, work: Callable[[], int]) -> tuple[float, int]:
    """Return the seconds of the best round, and its rows."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        rows = work()
        times.append(time.perf_counter() - began)
    return min(times), rows


def decode_bulk(directory: str) -> int:
    """Decode all commits of a partition with the codec."""
    return sum(step.rows.num_rows for step in read_range(LogRange(directory, 0, 0), "commits"))


def decode_singly(directory: str) -> int:
    """Decode all commits record by record in plain Python, with as few objects as possible."""
    count = 0
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if not entry.name.endswith(".log"):
            continue
        with open(entry.path, "rb") as file:
            data = file.read()
        for position, header in iterate_batches(data):
            assert check_crc(data, header, position)
            body, start, end = open_body(data, header, position)
            rows = [
                _plain_row(
                    body[key_at : key_at + key_bytes], body[value_at : value_at + value_bytes]
                )
                for _, _, _, _, _, key_at, key_bytes, value_at, value_bytes in split_records(
                    body, start, end, header.record_count
                )
                if key_bytes > 0 and value_bytes > 0
            ]
            count += len(rows)
    return count


def _plain_row(key: bytes, value: bytes) -> tuple[object, ...]:
    topic_at = 6 + int.from_bytes(key[2:4])
    group = key[4 : topic_at - 2].decode()
    topic = key[topic_at:-4].decode()
    partition = int.from_bytes(key[-4:])
    _, offset, leader_epoch, size = _VALUE_HEAD.unpack_from(value)
    metadata = value[15 : 14 + size].decode()
    (commit_ms,) = _INT64.unpack_from(value, 14 + size)
    topic_id = value[-16:]
    return group, topic, partition, offset, leader_epoch, metadata, commit_ms, topic_id


def report(name: str, seconds: float, rows: int, size_bytes: int, note: str = "") -> None:
    """Print one line of the table."""
    print(
        f"{name:52} {seconds:7.2f} s {rows / seconds / 1e6:7.2f} M rows/s"
        f" {size_bytes / seconds / 1e6:8.0f} MB/s  {note}",
        flush=True,
    )


def measure_codec(root: str, commits: int, rounds: int) -> None:
    """Measure decoding alone, in one thread, and the plain loop."""
    for label, per_batch in (("13.5 records a batch", 13.5), ("1 record a batch", 1.0)):
        path = os.path.join(root, f"codec-{per_batch}")
        size = write_commits(path, commits, records_per_batch=per_batch)
        directory = os.path.join(path, f"{OFFSETS_TOPIC}-0")
        plain, _ = best(2, functools.partial(decode_singly, directory))
        fast, rows = best(rounds, functools.partial(decode_bulk, directory))
        report(f"plain loop, {label}", plain, rows, size)
        report(f"codec, {label}", fast, rows, size, f"{plain / fast:.1f} x the plain loop")
        shutil.rmtree(path)


def measure_spark(root: str, commits: int, rounds: int) -> None:
    """Measure the data source on one core and on two: scan, tuples and Parquet."""
    path = os.path.join(root, "spark")
    size = write_commits(path, commits, log_partitions=4)
    command = [sys.executable, "-m", "benchmarks_pipeline.scan", path, "--rounds", str(rounds)]
    found: dict[int, dict[str, float]] = {}
    for cores in (1, 2):
        answer = subprocess.run(
            [*command, "--cores", str(cores)], stdout=subprocess.PIPE, check=True
        )
        found[cores] = json.loads(answer.stdout)
        for name, seconds in found[cores].items():
            notes = [] if cores == 1 else [f"{found[1][name] / seconds:.2f} x one core"]
            if name == SCAN:
                notes.append(f"{found[cores][TUPLES] / seconds:.1f} x tuples")
            report(f"data source {name}, {cores} core(s)", seconds, commits, size, ", ".join(notes))
    shutil.rmtree(path)


def main() -> int:
    """Run the parts and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=PARTS, help="repeatable")
    arguments = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores", flush=True)
    parts = arguments.only or PARTS
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as root:
        if "codec" in parts:
            measure_codec(root, min(arguments.commits, 1_000_000), arguments.rounds)
        if "source" in parts:
            measure_spark(root, arguments.commits, arguments.rounds)
    for name in parts:
        if name not in _HERE:
            print(f"-- {name}", flush=True)
            subprocess.run([sys.executable, "-m", f"benchmarks_pipeline.{name}"], check=True)
    print(f"load average {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
