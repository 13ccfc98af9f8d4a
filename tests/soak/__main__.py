"""Run a soak: `python -m tests.soak --seconds 600`."""

import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

import click

from coterie.server.file_handles import share_handles
from tests.live.broker_process import BrokerProcess
from tests.soak.samples import Sample, not_level, sample
from tests.soak.workload import Workload

_SAMPLE_EVERY_S = 1.0
_REPORT_EVERY_S = 10.0
# Words in the server's log that are findings.
_ALARMING = ("[error", "[warning", "Traceback")

# The server's limit of open files. So small that the load reaches the bound of the logs' files in
# the warm-up, which makes every handle that leaks visible; 128 connections are twice what the load
# needs.
HANDLES = 320

# Small segments and short intervals, so that rolling, compaction and retention run all the time.
CONFIG = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.segment.bytes": str(1 << 20),
    "log.segment.bytes": str(1 << 20),
    "log.roll.ms": "20000",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.05",
    "log.retention.check.interval.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
    "producer.id.expiration.ms": "30000",
}


class Soak:
    """One server, one workload, and the samples of the server."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.broker = BrokerProcess(directory / "data", CONFIG, HANDLES)
        self.samples: list[Sample] = []
        self.log_errors: list[str] = []
        self._seed = seed

    def run(self, seconds: float) -> Workload:
        """Run it all; the server is stopped in order at the end."""
        self.broker.start()
        try:
            return asyncio.run(self._run(seconds))
        finally:
            code = self.broker.stop()
            text = self.broker.output.read_text(errors="replace")
            # In its debug mode asyncio warns of slow callbacks.
            ours = [line for line in text.splitlines() if "library=asyncio" not in line]
            self.log_errors = [line for line in ours if any(word in line for word in _ALARMING)]
            if code:
                self.log_errors.append(f"the server ended with {code}")

    async def _run(self, seconds: float) -> Workload:
        workload = Workload(self.broker.bootstrap, self._seed)
        sampling = asyncio.create_task(self._sample(workload))
        try:
            await workload.run(seconds)
        finally:
            sampling.cancel()
        return workload

    async def _sample(self, workload: Workload) -> None:
        began = reported = time.monotonic()
        while not workload.stop.is_set():
            seen = sample(self.broker.pid)
            self.samples.append(seen)
            if seen.at_s - reported >= _REPORT_EVERY_S:
                reported = seen.at_s
                print(f"{seen.at_s - began:6.0f} s  {_figures(seen)}", flush=True)
            await asyncio.sleep(_SAMPLE_EVERY_S)

    def findings(self, workload: Workload) -> list[str]:
        """Return everything that is wrong."""
        files = not_level(self.samples, share_handles(HANDLES).files)
        return [*workload.ledger.violations, *self.log_errors, *files]


def _figures(seen: Sample) -> str:
    return (
        f"{seen.rss_kib / 1024:6.1f} MiB  {seen.files:4} files  {seen.sockets:4} sockets"
        f"  {seen.threads:2} threads  {seen.cpu_s:6.1f} s CPU"
    )


@click.command()
@click.option("--seconds", default=600.0, help="How long the load runs.", show_default=True)
@click.option("--seed", default=1, help="The seed of the workload's choices.", show_default=True)
def main(seconds: float, seed: int) -> None:
    """Put mixed load on one server and check every answer and what the server uses."""
    # The clients report every rebalance, of which there are thousands.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="coterie-soak-") as directory:
        soak = Soak(Path(directory), seed)
        workload = soak.run(seconds)
        findings = soak.findings(workload)
    for name, count in sorted(workload.ledger.counts.items()):
        print(f"{name:<24}{count:>12,}")
    for finding in findings:
        print(finding)
    print(f"soak: {seconds:.0f} s, seed {seed}, {len(findings)} findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
