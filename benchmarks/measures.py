"""The vocabulary of the tables: metrics with their units, rows with their goals, scenarios.

A scenario has rows (closed loop, pipelined; 100 members, 500, 1,000). A row is measured in one
generator process and yields a number for each of its metrics. Goals are those of the project for
`coterie serve --flush never`. They were set beside figures of other brokers on the same kind of
machine (docs/benchmarks.md), so the ratio to a peer of the same run means more than the number.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.processes import Usage
from benchmarks.session import Job

MICROSECONDS = 1e6
MILLISECONDS = 1e3


@dataclass(frozen=True, slots=True)
class Metric:
    """One column: its `key` in the JSON, its `title` in the table, and the decimals shown."""

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
    """One measurement of a scenario; `goals` maps a metric's key to the number to reach."""

    key: str
    title: str
    goals: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run of a row.

    Args:
        numbers: values by metric key; a metric that is unknown on this machine is absent.
        errors: how often each error was answered during the load, by the error's name.
        others_share: how many CPUs other work on the machine took during the measurement.
        versions: the API versions in use, by the API's name.
    """

    numbers: Numbers
    errors: dict[str, int] = field(default_factory=dict)
    others_share: float | None = None
    versions: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A measurement: its name, its rows and metrics, and the coroutine that measures a row.

    Args:
        run: measures one row in a generator process; None if the driver measures it (start-up).
        primary: the metric of the goals table and of the ratios.
        floor: whether the floor can take part.
        brokerless: whether it measures our own code in the generator's process, without a broker.
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
        """Return the row with this key."""
        return next(row for row in self.rows if row.key == key)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which this share (0 to 1) of an ordered, non-empty sequence lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def per_unit_of_cpu(usage: Usage, units: int, scale: float) -> float | None:
    """Return the server's CPU time for each of `units`, scaled from seconds."""
    if usage.server_cpu_s is None or not units:
        return None
    return usage.server_cpu_s * scale / units


def known(**numbers: float | None) -> Numbers:
    """Return the numbers that are known."""
    return {key: value for key, value in numbers.items() if value is not None}
