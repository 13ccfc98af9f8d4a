"""Measure the report page: `python -m tests.benchmarks.page [--groups 200] [--rebalances 20]`.

Groups of 24 partitions whose members join, leave and fail are written as tables. The time to write
the page includes reading the tables. The time to paint it is measured in headless Chromium, from
the beginning of the navigation until the first drawings are on the screen.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

from coterie.pipeline.report.page import render, write_page
from coterie.pipeline.report.reading import read_content
from coterie.pipeline.store import Store
from tests.pipeline.report.browser import Browser
from tests.pipeline.report.stores import busy_group, tables_of, write_store

_PAINTED = "performance.getEntriesByName('painted')[0].startTime"
_RUNS = 5


def main() -> None:
    """Write the page, open it, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--rebalances", type=int, default=20)
    parser.add_argument("--keep", metavar="FILE", help="keep the page there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        page = Path(options.keep or os.path.join(directory, "page.html")).absolute()
        groups = [
            busy_group(f"group-{number:03d}", options.rebalances + 1, seed=number)
            for number in range(options.groups)
        ]
        store = write_store(os.path.join(directory, "tables"), tables_of(*groups))
        written = []
        for _ in range(_RUNS):
            began = time.monotonic()
            content = read_content(Store.reading(store))
            write_page(str(page), render(content))
            written.append(time.monotonic() - began)
        with Browser() as browser:
            painted = [browser.open(page).value(_PAINTED) / 1_000 for _ in range(_RUNS)]
    count = sum(len(group.rebalances) for group in content.groups)
    print(f"{count:,} rebalances of {len(content.groups):,} groups")
    print(f"written in {sorted(written)[_RUNS // 2]:.2f} s (median), {max(written):.2f} s (worst)")
    print(f"painted in {sorted(painted)[_RUNS // 2]:.2f} s (median), {max(painted):.2f} s (worst)")


if __name__ == "__main__":
    main()
