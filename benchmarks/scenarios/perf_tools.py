"""Records in and out through Kafka's own perf tools: kafka-producer-perf-test and
kafka-consumer-perf-test of 4.3.1, each in a Java process of its own.

The libraries are those of the distribution in KAFKA_HOME, or those that `make interop` has fetched.
MB/s are those that the tool prints, in 10^6 bytes of values; the start of Java is not part of them.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from benchmarks.measures import (
    MILLISECONDS,
    PEAK_RSS_MIB,
    Outcome,
    Row,
    Scenario,
    known,
    per_unit_of_cpu,
)
from benchmarks.processes import Stretch, peak_rss_mib, reset_peak_rss
from benchmarks.requests import NotServed
from benchmarks.scenarios.librdkafka import CPU_MS_PER_MB, MB_PER_S
from benchmarks.session import Job, Session
from coterie.lab.live.parts import KAFKA_4_TOOLS, cache_directory, java_command

_PARTITIONS = 4
_LIMIT_S = 120
_MEGABYTE = 1e6
_MEBIBYTE = float(1 << 20)
# What is sent or read, for each second of the plan.
_BYTES_PER_S = 30_000_000
_TOOLS = "org.apache.kafka.tools"
_TRANSACTION_MS = 100


class _Kind(NamedTuple):
    """What a row sends: the size of values, the acknowledgements, and how."""

    value_bytes: int
    acks: str
    idempotent: bool = False
    transactional: bool = False


_PRODUCED = {
    f"{size}-{name}": _Kind(size, acks, idempotent, transactional)
    for size in (100, 1000)
    for name, acks, idempotent, transactional in (
        ("one", "1", False, False),
        ("all", "all", False, False),
        ("idempotent", "all", True, False),
        ("transactional", "all", True, True),
    )
}
_CONSUMED = {"fetch-100": 100, "fetch-1000": 1000}


def _jars() -> Path:
    """Return the directory of Kafka's libraries.

    Raises:
        NotServed: there is none, or no Java.
    """
    if shutil.which("java") is None:
        raise NotServed("Kafka's perf tools need Java 17 or later")
    home = os.environ.get("KAFKA_HOME")
    folder = Path(home) / "libs" if home else cache_directory() / KAFKA_4_TOOLS.folder
    if not folder.is_dir():
        raise NotServed(
            f"{folder} does not exist: set KAFKA_HOME to a Kafka distribution,"
            " or run `make interop ARGS=kafka-tools` once"
        )
    return folder


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row."""
    jars = _jars()
    session = await Session.open(job)
    topic = f"bench-perf-{row.key}-{job.tag}"
    await session.create_topic(topic, _PARTITIONS)
    session.close()
    work = _consume if row.key in _CONSUMED else _produce
    return await asyncio.to_thread(work, job, row, jars, topic)


def _tool(job: Job, jars: Path, name: str, topic: str, arguments: list[str]) -> str:
    """Run a tool to its end; return what it has printed."""
    common = ["--bootstrap-server", f"{job.host}:{job.port}", "--topic", topic]
    command = java_command(jars, f"{_TOOLS}.{name}", [*common, *arguments], heap_mb=512)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConnectionError(f"{name} did not end within {_LIMIT_S} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise ConnectionError(f"{name} failed: {lines[-1] if lines else done.returncode}")
    return done.stdout


def _send(job: Job, jars: Path, topic: str, kind: _Kind) -> tuple[int, str]:
    """Send the records of a row; return their number, and what the tool has printed."""
    records = int(_BYTES_PER_S * job.duration_s) // kind.value_bytes
    arguments = ["--num-records", str(records), "--record-size", str(kind.value_bytes)]
    arguments += ["--throughput", "-1", "--reporting-interval", str(1000 * _LIMIT_S)]
    if kind.transactional:
        arguments += ["--transactional-id", topic]
        arguments += ["--transaction-duration-ms", str(_TRANSACTION_MS)]
    idempotent = str(kind.idempotent).lower()
    arguments += ["--command-property", f"acks={kind.acks}", f"enable.idempotence={idempotent}"]
    return records, _tool(job, jars, "ProducerPerformance", topic, arguments)


def _produce(job: Job, row: Row, jars: Path, topic: str) -> Outcome:
    kind = _PRODUCED[row.key]
    reset_peak_rss(job.pid)
    stretch = Stretch(job.pid)
    records, printed = _send(job, jars, topic, kind)
    found = re.search(r"\(([\d.]+) MB/sec\)", printed.strip().splitlines()[-1])
    if found is None:
        raise ConnectionError(f"ProducerPerformance printed {printed[-200:]!r}")
    mebibytes_per_s = float(found[1])
    return _outcome(job, stretch, records * kind.value_bytes, mebibytes_per_s)


def _consume(job: Job, row: Row, jars: Path, topic: str) -> Outcome:
    value_bytes = _CONSUMED[row.key]
    records, _ = _send(job, jars, topic, _Kind(value_bytes, "1"))
    reset_peak_rss(job.pid)
    stretch = Stretch(job.pid)
    arguments = ["--num-records", str(records), "--group", topic]
    # The producer above had no time limit; this one must find all records.
    arguments += ["--timeout", str(1000 * _LIMIT_S)]
    printed = _tool(job, jars, "ConsumerPerformance", topic, arguments)
    lines = [line.split(", ") for line in printed.strip().splitlines() if ", " in line]
    if len(lines) < 2:
        raise ConnectionError(f"ConsumerPerformance printed {printed[-200:]!r}")
    figures = dict(zip(lines[0], lines[-1], strict=True))
    mebibytes_per_s = float(figures["fetch.MB.sec"])
    return _outcome(job, stretch, records * value_bytes, mebibytes_per_s)


def _outcome(job: Job, stretch: Stretch, size_bytes: int, mebibytes_per_s: float) -> Outcome:
    usage = stretch.end()
    peak = peak_rss_mib(job.pid)
    cpu_ms = per_unit_of_cpu(usage, 1, MILLISECONDS)
    numbers = known(
        cpu_ms_per_mb=None if cpu_ms is None else cpu_ms / (size_bytes / _MEGABYTE),
        mb_per_s=mebibytes_per_s * _MEBIBYTE / _MEGABYTE,
        peak_rss_mib=peak,
    )
    return Outcome(numbers, {}, usage.others_share)


def _title(kind: _Kind) -> str:
    how = f"acks={kind.acks}"
    if kind.transactional:
        how = f"transactions of {_TRANSACTION_MS} ms"
    elif kind.idempotent:
        how = "idempotent"
    return f"Produce, {kind.value_bytes:,} bytes, {how}"


SCENARIO = Scenario(
    key="perf_tools",
    title="Records through Kafka's perf tools, 4 partitions",
    rows=(
        *(Row(key, _title(kind)) for key, kind in _PRODUCED.items()),
        *(Row(key, f"Fetch, {size:,} bytes") for key, size in _CONSUMED.items()),
    ),
    metrics=(CPU_MS_PER_MB, MB_PER_S, PEAK_RSS_MIB),
    primary=CPU_MS_PER_MB,
    run=run,
)
