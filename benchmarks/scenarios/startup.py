"""Start-up: the time from the command to the first response, and resident memory then.

This scenario has no generator: the driver starts the broker, tries to connect again and again,
and sends ApiVersions (to the floor, a heartbeat). Only brokers that the benchmark starts itself
take part.
"""

from __future__ import annotations

from benchmarks.brokers import Child
from benchmarks.measures import MILLISECONDS, RSS_MIB, Metric, Outcome, Row, Scenario, known
from benchmarks.processes import cpu_s, rss_mib

START_MS = Metric("start_ms", "first response\nafter ms", 0)
# On a busy machine the time above is mostly waiting; this is the CPU time of the start alone.
START_CPU_MS = Metric("start_cpu_ms", "CPU\nms", 0)


def measure(broker: Child) -> Outcome:
    """Start the broker once, measure it and stop it.

    Raises:
        ProcessFailed: it did not start.
    """
    running = broker.start()
    try:
        assert running.start_s is not None
        assert running.address.pid is not None
        numbers = known(
            start_ms=running.start_s * MILLISECONDS,
            start_cpu_ms=(cpu_s(running.address.pid) or 0.0) * MILLISECONDS,
            rss_mib=rss_mib(running.address.pid),
        )
        return Outcome(numbers)
    finally:
        broker.stop()


SCENARIO = Scenario(
    key="startup",
    title="Start-up",
    rows=(Row("cold", "command to first response", {START_MS.key: 300.0, RSS_MIB.key: 45.0}),),
    metrics=(START_MS, START_CPU_MS, RSS_MIB),
    primary=START_MS,
    run=None,
    floor=True,
)
