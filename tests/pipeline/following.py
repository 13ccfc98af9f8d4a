"""A process that follows a directory, as a test starts and kills it.

    python -m tests.pipeline.following LOGS OUTPUT BUILD_EVERY_S

It prints `ready` when the streams run and a line for each append, and ends on SIGTERM.
"""

import sys
import tempfile

from coterie.pipeline.jobs.follow import (
    FOLLOW_SETTINGS,
    Appended,
    FollowOptions,
    follow,
    stop_on_signals,
)
from coterie.pipeline.session import start_session


def main(logs: str, output: str, build_every_s: str) -> None:
    def told(appended: Appended) -> None:
        reached = " ".join(f"{number}:{end}" for number, end in sorted(appended.positions.items()))
        print(f"appended {appended.topic} {appended.rows} {reached}", flush=True)

    settings = FOLLOW_SETTINGS | {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
    }
    with tempfile.TemporaryDirectory() as scratch:
        spark = start_session("follow", master="local[4]", settings=settings, scratch=scratch)
        stop = stop_on_signals()
        print("ready", flush=True)
        options = FollowOptions(build_every_s=float(build_every_s))
        report = follow(spark, [logs], output, stop=stop, options=options, told=told)
        print(f"done {report.rows} {report.batches} {report.builds}", flush=True)
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
