"""One run: it copies what is new in the logs to bronze and brings every table up to date.

    report = run(LocalEngine(), ["/var/lib/kafka"], "/data/forensics")

A run commits everything that it writes in one step, with the manifest. A killed run has no effect,
and the next one repeats its work [pipeline/manifest]. A log can be compacted between two runs: what
was read before remains in bronze. A run that finds nothing new writes nothing.
"""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from coterie.client.security import PLAINTEXT, Security
from coterie.pipeline.engine import Engine
from coterie.pipeline.findings.retention import OFFSETS_RETENTION_MS
from coterie.pipeline.jobs import log_ends as ends_of
from coterie.pipeline.jobs.decode import decode
from coterie.pipeline.jobs.gold import build_gold
from coterie.pipeline.jobs.ingest import ingest
from coterie.pipeline.jobs.inputs import plan
from coterie.pipeline.jobs.job import INGEST, Job, Progress, RunReport, WritingStep
from coterie.pipeline.kafka_input import is_kafka
from coterie.pipeline.store import Store

if TYPE_CHECKING:
    from coterie.pipeline.jobs.clusters import Copied
    from coterie.pipeline.kafka_input import CopyProgress


def run(
    engine: Engine,
    inputs: Iterable[str],
    output: str,
    *,
    log_ends: str | None = None,
    retention_ms: int = OFFSETS_RETENTION_MS,
    rebuild: bool = False,
    crc: bool = True,
    security: Security = PLAINTEXT,
    copied: "Iterable[Copied]" = (),
    progress: Progress | None = None,
    copying: "CopyProgress | None" = None,
) -> RunReport:
    """Read what is new and bring every table up to date.

    Args:
        engine: runs the tasks.
        inputs: data directories, ours or a Kafka's, and clusters: kafka://HOST:PORT.
        output: the directory of the tables.
        log_ends: the path of log-end offsets over time (`topic, partition, at_ts, log_end_offset`),
            Parquet or CSV with a header; None for those that were requested from clusters. Without
            them every lag is unknown.
        retention_ms: how long the brokers keep the offsets of a group without members.
        rebuild: decode everything again that was ever read.
        crc: whether to check checksums.
        security: how connections to clusters are secured.
        copied: the results of copies that the caller has made before.
        progress: is called when a step begins and when it ends.
        copying: is called with the progress of copying clusters.

    Raises:
        ClientError: a cluster cannot be reached, refuses a request, or has a shorter log than
            before.
        NoSuchLog: an input is not a data directory.
        StoreError: the output directory cannot be used.
    """
    began = time.monotonic()
    inputs = list(inputs)
    sources = [each for each in inputs if is_kafka(each)]
    copied = list(copied)
    if sources:
        # Imported here, because only clusters need it.
        from coterie.pipeline.jobs.clusters import copy_clusters

        copied += copy_clusters(sources, output, copying, crc=crc, security=security)
    with Store.open(output) as store, store.scratch() as scratch:
        planned = plan(store, [each for each in inputs if not is_kafka(each)])
        job = Job(engine, store, scratch, progress, planned.about)
        ingest(job, planned, crc=crc)
        build(job, log_ends=log_ends, retention_ms=retention_ms, rebuild=rebuild)
        report = job.finish(
            planned.positions,
            warnings=planned.warnings,
            seconds=time.monotonic() - began,
            input_bytes=planned.size_bytes,
        )
    return report._replace(
        steps=[*_copy_steps(copied), *report.steps],
        input_bytes=report.input_bytes + sum(each.size_bytes for each in copied),
    )


def _copy_steps(copied: "list[Copied]") -> list[WritingStep]:
    """Return the steps of copies; a copy writes all of its tables at the same time."""
    steps: list[WritingStep] = []
    total = sum(len(each.tables) for each in copied)
    for each in copied:
        seconds = each.seconds
        for table, part in each.tables.items():
            number = len(steps) + 1
            step = WritingStep(INGEST, table, number, total, part["rows"], part["bytes"], seconds)
            steps.append(step)
            seconds = 0.0
    return steps


def build(
    job: Job,
    *,
    log_ends: str | None = None,
    retention_ms: int = OFFSETS_RETENTION_MS,
    rebuild: bool = False,
) -> None:
    """Decode what is new in bronze, and build the other tables again if anything is new.

    Args:
        job: the job, which may have written bronze parts.
        log_ends, retention_ms: see `run`.
        rebuild: whether to treat all of bronze as new.
    """
    store = job.store
    is_new_lag = ends_of.are_new(job, log_ends)
    # An earlier run may have decoded parts without building gold from them.
    behind = any(
        store.parts(table, newer_than="rebalances")
        for table in ("offset_commits", "group_events", "share_states")
    )
    if decode(job, rebuild=rebuild) or is_new_lag or behind:
        build_gold(job, log_ends=log_ends, retention_ms=retention_ms)
