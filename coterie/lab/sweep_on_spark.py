"""A sweep in the workers of Spark, in place of the processes of this machine.

The runs are dealt to some tasks for each core, the longest ones first, so that all cores end at
about the same time. Tasks write their rows into the directory of the sweep, which all workers must
see under the same path. A sweep that is killed continues where it was, as with processes.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from coterie.lab.store import Key, Store
from coterie.lab.sweep import FLUSH_S, Plan, run_key
from coterie.pipeline.engine import Engine

# Spark needs 30 ms for a task, as much as a run takes.
_TASKS_A_CORE = 6


def run_sweep_on_spark(
    plan: Plan,
    store: Store,
    engine: Engine,
    cores: int,
    progress: Callable[[int, int, float], None],
) -> list[str]:
    """Run what is missing of a sweep; return the violations of all its runs.

    Args:
        plan: a checked plan.
        store: the directory.
        engine: runs the tasks.
        cores: how many tasks it runs at once.
        progress: called with the tasks done, all tasks, and the seconds that are left.
    """
    done = store.keys()
    missing = [key for key in plan.runs() if key not in done]
    count = min(len(missing), _TASKS_A_CORE * cores)
    parts = [missing[number::count] for number in range(count)]
    began = time.monotonic()

    def tasks_done(ended: int, total: int) -> None:
        left_s = (time.monotonic() - began) / ended * (total - ended) if ended else 0.0
        progress(ended, total, left_s)

    engine.on_tasks = tasks_done
    engine.run(count, partial(_run_part, parts, store.directory, min(plan.seeds)))
    return store.violations()


def _run_part(parts: list[list[Key]], directory: str, first_seed: int, number: int) -> int:
    """Make the runs of a task and store them; return their number."""
    store = Store(directory)
    # Spark may repeat a task.
    done = store.keys()
    rows: list[dict[str, Any]] = []
    timeline: list[dict[str, Any]] = []
    flushed = time.monotonic()
    for key in parts[number]:
        if key in done:
            continue
        row, intervals = run_key(key, with_timeline=key.seed == first_seed)
        rows.append(row)
        timeline += intervals
        if time.monotonic() - flushed > FLUSH_S:
            store.add(rows, timeline)
            rows, timeline, flushed = [], [], time.monotonic()
    store.add(rows, timeline)
    return len(parts[number])
