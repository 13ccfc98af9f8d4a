"""Whether an open page grows: `python -m tests.console.memory --minutes 60`.

A broker has 200 groups. Records are produced and offsets are committed each second, so that lags
change, and one group of a real client rebalances again and again. The page is open in Chromium. At
each minute a line says what the page's scripts hold, after a collection, how many nodes its
document has, and how much memory the console's process has; at the end there are the slopes, from
the sixth minute on: until then caches fill up. With `--limit-mib` a larger slope an hour is a
failure.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka

from coterie.client.cluster import Cluster
from coterie.client.offsets import commit_offsets
from coterie.client.topics import create_topic
from demo.producer import QUIET_LOG_LEVEL
from tests.live.broker_process import FAST_GROUPS, BrokerProcess
from tests.pipeline.report.browser import Browser, Tab
from tests.soak import samples

GROUPS, PARTITIONS = 200, 10
TOPIC = "orders"
# So many groups commit in a second.
COMMITS = 20
# A member joins or leaves so often.
REBALANCE_S = 10.0
WARM_MINUTES = 5
MIB = 1024 * 1024


class Sample(NamedTuple):
    """What is held at a time.

    Attributes:
        minute: since the page was opened.
        heap_mib: by the scripts of the page.
        nodes: in its document.
        rss_mib: by the process of the console.
        threads: of that process.
    """

    minute: float
    heap_mib: float
    nodes: int
    rss_mib: float
    threads: int


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the straight line with the least squares."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


class Load:
    """Records, commits and rebalances, a step each second."""

    def __init__(self, bootstrap: str) -> None:
        self._config = {"bootstrap.servers": bootstrap, "log_level": QUIET_LOG_LEVEL}
        self._producer = confluent_kafka.Producer(self._config)
        self._cluster = Cluster(bootstrap)
        self._cluster.__enter__()
        change = create_topic(self._cluster, TOPIC, PARTITIONS, 1, {"retention.bytes": str(MIB)})
        assert change.error == 0, change
        for number in range(GROUPS):
            self._commit(number, 0)
        self._members = [self._member()]
        self._steps = self._produced = 0
        self._changed_s = time.monotonic()

    def _member(self) -> Any:
        member = confluent_kafka.Consumer({**self._config, "group.id": "restless"})
        member.subscribe([TOPIC])
        return member

    def _commit(self, number: int, offset: int) -> None:
        offsets = dict.fromkeys(((TOPIC, index) for index in range(PARTITIONS)), offset)
        commit_offsets(self._cluster, f"group-{number:03d}", offsets)

    def step(self) -> None:
        """Produce, commit, and let a member join or leave if it is time."""
        for index in range(PARTITIONS):
            self._producer.produce(TOPIC, value=b"x" * 100, partition=index)
        self._producer.flush()
        self._produced += 1
        for number in range(COMMITS):
            self._commit((self._steps * COMMITS + number) % GROUPS, self._produced)
        self._steps += 1
        if time.monotonic() - self._changed_s >= REBALANCE_S:
            self._changed_s = time.monotonic()
            if len(self._members) == 1:
                self._members.append(self._member())
            else:
                self._members.pop().close()
        for member in self._members:
            member.poll(0.05)

    def close(self) -> None:
        """Leave."""
        for member in self._members:
            member.close()
        self._cluster.close()


@contextmanager
def console(bootstrap: str) -> Iterator[tuple[int, str]]:
    """Run `coterie console`; yield its process id and its address."""
    command = [sys.executable, "-m", "coterie", "console", "--no-browser"]
    with subprocess.Popen(
        [*command, "--bootstrap-server", bootstrap], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.pid, process.stdout.readline().removeprefix("console on ").strip()
        finally:
            process.terminate()


def sample(tab: Tab, tools: Any, pid: int, began_s: float) -> Sample:
    """Return what is held now."""
    tools.send("HeapProfiler.collectGarbage")
    metrics = tools.send("Performance.getMetrics")["metrics"]
    measured = {each["name"]: each["value"] for each in metrics}
    used = samples.sample(pid)
    return Sample(
        (time.monotonic() - began_s) / 60,
        measured["JSHeapUsedSize"] / MIB,
        tab.value("document.querySelectorAll('*').length"),
        used.rss_kib / 1024,
        used.threads,
    )


def run(minutes: float, interval_s: float) -> list[Sample]:
    """Keep the page open, and return what was held."""
    found: list[Sample] = []
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "data", FAST_GROUPS)
        broker.start()
        load = Load(broker.bootstrap)
        try:
            with console(broker.bootstrap) as (pid, url), Browser() as browser:
                tab = browser.visit(url)
                tab.wait("document.querySelectorAll('.row').length > 10")
                tools = tab.page.context.new_cdp_session(tab.page)
                tools.send("Performance.enable")
                began_s = next_s = time.monotonic()
                while True:
                    load.step()
                    if time.monotonic() >= next_s:
                        next_s += interval_s
                        found.append(sample(tab, tools, pid, began_s))
                        print(line(found[-1]), flush=True)
                    if time.monotonic() - began_s >= minutes * 60:
                        break
                    # Playwright's events are handled meanwhile.
                    tab.page.wait_for_timeout(1_000)
                assert tab.errors == [], tab.errors
        finally:
            load.close()
            broker.stop()
    return found


def line(each: Sample) -> str:
    """Return a sample as a line."""
    load = os.getloadavg()[0]
    return (
        f"{each.minute:5.1f} min  heap {each.heap_mib:6.2f} MiB  {each.nodes:5} nodes"
        f"  console {each.rss_mib:6.1f} MiB  {each.threads} threads  load {load:.1f}"
    )


def main() -> int:
    """Measure, and print the slopes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--interval-s", type=float, default=60.0)
    parser.add_argument("--limit-mib", type=float, help="the most MiB an hour")
    given = parser.parse_args()
    found = run(given.minutes, given.interval_s)
    warm = [each for each in found if each.minute > WARM_MINUTES] or found
    heap = slope([(each.minute, each.heap_mib) for each in warm]) * 60
    rss = slope([(each.minute, each.rss_mib) for each in warm]) * 60
    print(f"heap {heap:+.2f} MiB an hour, console {rss:+.2f} MiB an hour, of {len(warm)} samples")
    return int(given.limit_mib is not None and max(heap, rss) > given.limit_mib)


if __name__ == "__main__":
    sys.exit(main())
