"""Measure the report page: `python -m benchmarks_pipeline.report`.

A page of 1,000 rebalances is read from tables, drawn and written as by `coterie pipeline report`.
"""

import argparse
import os
import sys
import tempfile
import time

from benchmarks_pipeline.histories import write_histories
from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs.run import run
from coterie.pipeline.report.page import DEFAULT_TITLE, render, write_page
from coterie.pipeline.report.reading import read_content
from coterie.pipeline.store import Store

_COMMITS, _REBALANCES = 100_000, 1_000
_ROUNDS = 3


def measure(root: str) -> None:
    """Build the tables, write the page and print the figures."""
    logs, output, page = (os.path.join(root, name) for name in ("logs", "tables", "page.html"))
    write_histories(logs, _COMMITS, _REBALANCES)
    run(LocalEngine(), [logs], output)
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        content = read_content(Store.reading(output))
        write_page(page, render(content, DEFAULT_TITLE))
        times.append(time.perf_counter() - began)
    count = sum(len(group.rebalances) for group in content.groups)
    print(
        f"report page: {count:,} rebalances of {len(content.groups)} groups in {min(times):.2f} s"
        f" (the first time {times[0]:.2f} s), {os.path.getsize(page) / 1e6:.1f} MB,"
        f" load average {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def main() -> int:
    """Run the benchmark."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as root:
        measure(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
