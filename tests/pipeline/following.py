"""A process that follows a directory, for tests that start and kill it.

    python -m tests.pipeline.following LOGS OUTPUT BUILD_EVERY_S

It prints `ready` when it begins and a line for each append, and ends on SIGTERM. Of gold it writes
only the table that says how far it was built. Building gold takes most of the time, and its rows
cannot count twice because a build replaces its tables.
"""

import sys
from typing import Any

from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs import run as jobs_run
from coterie.pipeline.jobs.follow import (
    Appended,
    FollowEvents,
    FollowOptions,
    follow,
    stop_on_signals,
)
from coterie.pipeline.jobs.job import BUILD, Job


def build_one_table(job: Job, **_options: Any) -> None:
    job.write_files(BUILD, ["rebalances"], 0, lambda _number, _files: None)


def main(logs: str, output: str, build_every_s: str) -> None:
    def print_append(appended: Appended) -> None:
        reached = " ".join(f"{number}:{end}" for number, end in sorted(appended.positions.items()))
        print(f"appended {appended.topic} {appended.rows} {reached}", flush=True)

    setattr(jobs_run, "build_gold", build_one_table)  # noqa: B010 - not exported
    stop = stop_on_signals()
    print("ready", flush=True)
    # A busy machine may need long for the last build.
    options = FollowOptions(build_every_s=float(build_every_s), last_build_s=100)
    events = FollowEvents(on_append=print_append)
    report = follow(LocalEngine(), [logs], output, stop=stop, options=options, events=events)
    print(f"done {report.rows} {report.batches} {report.builds}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
