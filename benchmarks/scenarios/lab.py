"""Runs of the lab: one scenario in all machines, a large group, and the runs of a sweep.

There is no broker and no socket. All times are CPU time of one process, so that other work on the
machine matters little. The goals are for a quiet machine with two cores.
"""

from __future__ import annotations

import time

from benchmarks.measures import Metric, Outcome, Row, Scenario
from benchmarks.session import Job
from coterie.lab.machines import MACHINES
from coterie.lab.run import run as run_machine
from coterie.lab.scenario import load_scenario, scenario_names

SECONDS = Metric("cpu_s", "CPU\ns", 2)
RUNS = Metric("runs", "runs", 0)
PER_RUN = Metric("cpu_ms_per_run", "CPU\nms/run", 0)
SPEED = Metric("times_real_time", "virtual s\nin a CPU s", 0, more_is_better=True)

# The machines of a sweep of 5,040 runs: seven of them, twelve scenarios, three sizes, twenty seeds.
SWEPT = ("zookeeper", "eager-3", "static", "cooperative", "connect", "rocketmq-4", "rocketmq-5")
_SIZES = (10, 20, 50)
# The presets of published measurements are not part of it.
_PRESETS = ("connect-900", "streams-10")
_FIVE_MINUTES_S = 300

# A run is a machine, a scenario and its sizes.
Work = tuple[str, str, int, int]


def _work(row: str, *, quick: bool) -> list[Work]:
    """Return the runs of a row."""
    if row == "all_machines":
        return [(name, "three-and-one", 20, 60) for name in MACHINES]
    if row == "sweep":
        found = []
        for scenario in map(load_scenario, scenario_names()):
            if scenario.name not in _PRESETS:
                for members in _SIZES[: 1 if quick else 3]:
                    partitions = scenario.partitions * members // scenario.size
                    found += [(each, scenario.name, members, partitions) for each in SWEPT]
        return found
    members, partitions = (50, 100) if quick else (500, 1_000)
    return [(row.removeprefix("large_").replace("_", "-"), "three-and-one", members, partitions)]


def _measure(row: Row, *, quick: bool) -> dict[str, float]:
    work = _work(row.key, quick=quick)
    virtual_s = 0.0
    began = time.process_time()
    for machine, name, members, partitions in work:
        scenario = load_scenario(name).resized(members, partitions)
        if row.key.startswith("large_"):
            # Five virtual minutes in all.
            scenario = scenario._replace(form_s=_FIVE_MINUTES_S - 60)
        virtual_s += scenario.form_s + run_machine(machine, scenario).window_s
    took_s = time.process_time() - began
    return {
        SECONDS.key: took_s,
        RUNS.key: len(work),
        PER_RUN.key: took_s * 1e3 / len(work),
        SPEED.key: virtual_s / took_s,
    }


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row."""
    return Outcome(_measure(row, quick=job.quick))


SCENARIO = Scenario(
    key="lab",
    title="Runs of the lab (CPU time of one process)",
    rows=(
        Row("all_machines", "20 members, 60 partitions, all machines", {SECONDS.key: 2}),
        Row("large_eager-3", "500 members, 1,000 partitions, eager-3, 5 min", {SECONDS.key: 5}),
        Row("large_cooperative", "the same, cooperative", {SECONDS.key: 5}),
        Row("large_rocketmq-4", "the same, rocketmq-4", {SECONDS.key: 15}),
        # 5,040 runs on two cores within twenty minutes.
        Row("sweep", "7 machines, 12 scenarios, 10 to 50 members", {PER_RUN.key: 476}),
    ),
    metrics=(SECONDS, RUNS, PER_RUN, SPEED),
    primary=SECONDS,
    run=run,
    brokerless=True,
)
