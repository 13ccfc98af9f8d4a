"""What is measured, in which unit, and which goal it has: the vocabulary of the tables.

A scenario has rows (closed loop, pipelined; 100 members, 500, 1,000); a row is measured in one
generator process and gives a number for each of its metrics. Goals are those of the project for
`coterie serve --flush never`; they were set beside figures of other brokers taken on the same kind
of machine (docs/benchmarks.md), so the ratio to a peer of the same run tells more than the number.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.processes import Usage
from benchmarks.session import Job

MICROSECONDS = 1e6
MILLISECONDS = 1e3


@dataclass(frozen=True, slots=True)
class Metric:
    """One column: `key` in the JSON, `title` in the table, decimals shown."""

    key: str
    title: str
    decimals: int = 1
    more_is_better: bool = False


REQUESTS_PER_S = Metric("requests_per_s", "requests/s", 0, more_is_better=True)
P50_US = Metric("p50_us", "p50\nµs", 0)
P99_US = Metric("p99_us", "p99\nµs", 0)
CPU_US = Metric("cpu_us_per_request", "CPU\nµs/request", 2)
PEAK_RSS_MIB = Metric("peak_rss_mib", "peak RSS\nMiB", 0)
RSS_MIB = Metric("rss_mib", "RSS\nMiB", 0)
GENERATOR_BUSY = Metric("generator_busy_percent", "generator\nbusy %", 0)

Numbers = dict[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement of a scenario. `goals` maps a metric's key to the number to reach."""

    key: str
    title: str
    goals: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of a row gave.

    Args:
        numbers: metric key -> value; a metric that could not be told is absent.
        errors: error name -> how often it was answered while the load ran.
        others_share: CPUs' worth of other work on the machine meanwhile.
        versions: API -> version spoken.
    """

    numbers: Numbers
    errors: dict[str, int] = field(default_factory=dict)
    others_share: float | None = None
    versions: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A measurement: what it is called, what it gives, and the coroutine that makes a row of it.

    Args:
        run: measures one row, in a generator process; None when the driver does it (start-up).
        primary: the metric that the goals table and the ratios are about.
        floor: whether the floor server can take part.
        brokerless: it measures our own code in the generator's process, and no broker is started.
    """

    key: str
    title: str
    rows: tuple[Row, ...]
    metrics: tuple[Metric, ...]
    primary: Metric
    run: Callable[[Job, Row], Awaitable[Outcome]] | None
    floor: bool = False
    brokerless: bool = False

    def row(self, key: str) -> Row:
        """Find a row by its key."""
        return next(row for row in self.rows if row.key == key)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which this share (0-1) of an ordered, non-empty sequence lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def per_unit_of_cpu(usage: Usage, units: int, scale: float) -> float | None:
    """Return the server's CPU time for each of `units` things, scaled from seconds."""
    if usage.server_cpu_s is None or not units:
        return None
    return usage.server_cpu_s * scale / units


def told(**numbers: float | None) -> Numbers:
    """Keep the numbers that could be told."""
    return {key: value for key, value in numbers.items() if value is not None}
