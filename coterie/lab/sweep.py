"""Many runs: every machine, scenario, size, setting and seed, in several processes.

A sweep writes its rows to a directory as it goes. If it is interrupted or killed, the same command
runs what is missing. `run_key` is a plain function from a key to a row, which Spark runs instead of
the processes in `sweep_on_spark`.
"""

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice, product
from typing import Any, NamedTuple

from coterie import __version__
from coterie.lab.errors import WrongInput
from coterie.lab.kernel import Violation
from coterie.lab.machines import MACHINES, machine_named
from coterie.lab.run import Run, RunOptions, run
from coterie.lab.scenario import load_scenario
from coterie.lab.store import Key, Store, columns_of

# Rows are written after so many seconds, and each process has so many runs waiting.
FLUSH_S = 3.0
_WAITING = 3
MAX_RUNS = 200_000


class Plan(NamedTuple):
    """What a sweep runs.

    Attributes:
        scenarios, machines: names.
        members: sizes; empty for those of the scenarios. Partitions grow with the members.
        seeds: the seeds.
        settings: for each setting the values to try.
    """

    scenarios: tuple[str, ...]
    machines: tuple[str, ...]
    members: tuple[int, ...]
    seeds: tuple[int, ...]
    settings: tuple[tuple[str, tuple[str, ...]], ...]

    def check(self) -> None:
        """Check everything before the first run.

        Raises:
            WrongInput: a name, a size or a value is wrong, or there are too many runs.
        """
        for machine in self.machines:
            machine_named(machine)
        keys = self.runs()
        if len(keys) > MAX_RUNS:
            raise WrongInput(f"These are {len(keys):,} runs, at most {MAX_RUNS:,} are possible.")
        for key in {key._replace(seed=0, machine=self.machines[0]) for key in keys}:
            scenario = load_scenario(key.scenario).resized(key.members, key.partitions)
            Run(key.machine, scenario, 0, RunOptions(dict(key.settings)))

    def runs(self) -> list[Key]:
        """Return the keys of all runs, the longest ones first."""
        names = [name for name, _ in self.settings]
        grids = list(product(*(values for _, values in self.settings)))
        keys = []
        for scenario in map(load_scenario, self.scenarios):
            for members in self.members or (scenario.size,):
                partitions = max(1, scenario.partitions * members // max(1, scenario.size))
                keys += [
                    Key(scenario.name, machine, members, partitions, seed,
                        tuple(sorted(zip(names, grid, strict=True))))
                    for machine in self.machines
                    if machine in (scenario.machines or self.machines)
                    for grid in grids
                    for seed in self.seeds
                ]  # fmt: skip
        return sorted(keys, key=lambda key: (-_cost(key), key))

    def text(self) -> str:
        """Return the plan as JSON, by which a directory is recognised."""
        return json.dumps({"plan": self._asdict(), "version": __version__}, indent=1)


def run_key(key: Key, *, with_timeline: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Make a run; return its row, and its intervals as rows if they are wanted."""
    began = time.perf_counter()
    scenario = load_scenario(key.scenario).resized(key.members, key.partitions)
    identity: dict[str, Any] = {**key._asdict(), "settings": list(key.settings)}
    row: dict[str, Any] = {**identity, "evidence": "simulated", "code_version": __version__}
    try:
        outcome = run(key.machine, scenario, key.seed, RunOptions(dict(key.settings)))
    except Violation as violation:
        row["violation"] = str(violation)
        return row, []
    row |= columns_of(outcome)
    row["wall_ms"] = (time.perf_counter() - began) * 1_000
    timeline = [
        {**identity, **each._asdict()} for each in (outcome.intervals if with_timeline else ())
    ]
    return row, timeline


def run_sweep(
    plan: Plan,
    store: Store,
    processes: int,
    progress: Callable[[int, int, float], None],
) -> list[str]:
    """Run what is missing of a sweep; return the violations of all its runs.

    Args:
        plan: a checked plan.
        store: the directory.
        processes: how many runs are made at once.
        progress: called with the runs done, all runs, and the seconds that are left.

    Raises:
        KeyboardInterrupt: the user has interrupted it; what was done is stored.
    """
    done = store.keys()
    missing = [key for key in plan.runs() if key not in done]
    rows: list[dict[str, Any]] = []
    timeline: list[dict[str, Any]] = []
    flushed = began = time.monotonic()
    work = sum(map(_cost, missing))
    worked = 0.0
    try:
        results = _results(missing, min(plan.seeds), processes)
        for number, (key, (row, intervals)) in enumerate(results, len(done) + 1):
            rows.append(row)
            timeline += intervals
            worked += _cost(key)
            now = time.monotonic()
            progress(number, len(done) + len(missing), (now - began) / worked * (work - worked))
            if now - flushed > FLUSH_S:
                store.add(rows, timeline)
                rows, timeline, flushed = [], [], now
    finally:
        store.add(rows, timeline)
    return store.violations()


def _results(
    keys: list[Key], first_seed: int, processes: int
) -> Iterator[tuple[Key, tuple[dict[str, Any], list[dict[str, Any]]]]]:
    """Yield each run as soon as it is done. The ownership over time is kept for one seed."""
    if processes == 1:
        for key in keys:
            yield key, run_key(key, with_timeline=key.seed == first_seed)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, _begin_process)
    waiting: dict[Future[Any], Key] = {}
    remaining = iter(keys)
    try:
        while True:
            for key in islice(remaining, processes * _WAITING - len(waiting)):
                future = pool.submit(run_key, key, with_timeline=key.seed == first_seed)
                waiting[future] = key
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin_process() -> None:
    """Leave Ctrl-C to the process that writes, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _cost(key: Key) -> float:
    """Estimate how long a run takes, without unit."""
    return MACHINES[key.machine].cost * (key.members + 5) * (key.partitions + 20)
