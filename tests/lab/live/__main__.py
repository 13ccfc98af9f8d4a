"""`make lab-live`: the live grid, and the walks of the documents, with real clients.

    python -m tests.lab.live [--client NAME ...] [--output DIR] [--bootstrap-server H:P] [--seeds N]

Each client goes through each scenario of the grid under each protocol that it has. The table has
what was measured beside what the model says, for each beat phase. What can't be had is skipped,
with the reason. Figures of a busy machine are higher: the load is printed.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from coterie.lab.errors import WrongInput
from coterie.lab.live.beside import simulated_ranges
from coterie.lab.live.cells import CELLS, live_scenario
from coterie.lab.live.known import CLIENTS, client_named
from coterie.lab.live.parts import PartMissing
from coterie.lab.live.run import (
    LiveOptions,
    add_to_store,
    free_seed,
    live_store,
    run_live,
)
from coterie.lab.store import Store
from coterie.processes import ProcessFailed
from tests.lab.live.walks import WALKS, WalkDiffers

_SIMULATED_SEEDS = 12


def cell(store: Store, name: str, client: str, machine: str, arguments: argparse.Namespace) -> None:
    """Run one cell and print its line."""
    scenario = live_scenario(name)
    seed = free_seed(store, scenario, client, machine)
    bootstrap = arguments.bootstrap_server
    options = LiveOptions(client, machine, bootstrap, seed=seed)
    folder = Path(store.directory) / "processes" / f"{name}-{client}-{machine}-{seed}"
    heading = f"{name:14} {client:14} {machine:12}"
    try:
        result = run_live(scenario, options, folder, print, lambda _: None)
    except (WrongInput, PartMissing, ProcessFailed) as error:
        print(f"{heading} skipped: {error}", flush=True)
        return
    add_to_store(store, result)
    metrics = result.outcome.metrics
    measured = metrics["unowned"] or 0.0
    ranges = simulated_ranges(scenario, machine, scenario.settings, _SIMULATED_SEEDS)
    beside = "  ".join(
        f"{each.phase} {each.middle:.1f} [{each.low:.1f}, {each.high:.1f}]"
        f"{'*' if each.has(measured) else ''}"
        for each in ranges
    )
    print(
        f"{heading} {measured:7.1f} +{metrics['double']:5.1f}   {beside or 'not simulated'}"
        f"   load {os.getloadavg()[0]:.0f}",
        flush=True,
    )


def machines_of(client: str) -> tuple[str, ...]:
    """Return the machines that the grid runs with a client."""
    # KIP-848 is not served by Coterie yet; connectors have a walk of their own.
    return tuple(each for each in client_named(client).machines if not each.startswith("connect"))


def walks(folder: Path) -> int:
    """Run the walks; return how many differ."""
    failed = 0
    for name, walk in WALKS.items():
        began_s = time.monotonic()
        try:
            for line in walk(folder / name):
                print(f"    {line}")
            verdict = "as in the document"
        except (WrongInput, PartMissing, ProcessFailed) as error:
            verdict = f"skipped: {error}"
        except WalkDiffers as error:
            failed += 1
            verdict = f"DIFFERS: {error}"
        print(f"walk {name}: {verdict} ({time.monotonic() - began_s:.0f} s)", flush=True)
    return failed


def main() -> int:
    """Run everything; return the exit code."""
    parser = argparse.ArgumentParser(prog="make lab-live")
    parser.add_argument("--client", action="append", choices=list(CLIENTS))
    parser.add_argument("--output", default="build/lab-live")
    parser.add_argument("--bootstrap-server", default="")
    parser.add_argument("--scenario", action="append", choices=CELLS)
    parser.add_argument("--no-walks", action="store_true")
    parser.add_argument("--only-walks", action="store_true")
    arguments = parser.parse_args()
    store = live_store(arguments.output)
    if not arguments.only_walks:
        print(
            "partition-seconds without a reader, and with two; then the model: median [5 %, 95 %]"
        )
        print("for each beat phase; * means that the measured value lies there, or within 10 %")
        for client in arguments.client or CLIENTS:
            for machine in machines_of(client):
                for name in arguments.scenario or CELLS:
                    cell(store, name, client, machine, arguments)
    failed = 0
    if not arguments.no_walks:
        with tempfile.TemporaryDirectory() as folder:
            failed = walks(Path(folder))
    print(f"results are in {arguments.output}: coterie lab report {arguments.output} --html FILE")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
