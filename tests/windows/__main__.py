"""Run tests with Windows' Python under Wine: `python -m tests.windows [--python 3.12] [-- ARGS]`.

First pytest itself runs there, with ARGS or a slice: storage, protocol and coordinator. Then live
tests run here with brokers that run there, and `kill -9` ends brokers that write. What is needed is
fetched once; `installation.py` says what must be there. The exit code is 0 if all succeeded.
"""

import os
import subprocess
import sys

import click

from tests.windows.compiled import build
from tests.windows.installation import PYTHONS, ROOT, install

# They need no fork, no terminal and no other process.
_UNIT = ("tests/unit/storage", "tests/unit/protocol", "tests/unit/coordinator")
# They import what only Linux has, or libraries that are not installed here.
_LEFT_OUT = (
    "tests/unit/storage/test_other_systems.py",
    "tests/unit/protocol/test_api_keys.py",
    "tests/unit/protocol/test_record_peers.py",
)
# Records, groups, retention and cleaning. No broker there ends in order with the SIGTERM of Linux.
_LIVE = (
    "tests/live/test_produce_consume.py",
    "tests/live/test_groups.py::test_mixed_consumers_join",
    "tests/live/test_retention.py",
    "tests/live/test_compaction.py",
    "--deselect=tests/live/test_retention.py::test_retention_by_size_keeps_new_records",
    "--deselect=tests/live/test_compaction.py::test_commits_survive_compaction_and_kills",
)
_KILLS = 4
# Wine starts a broker in half a minute on a busy machine.
_START_LIMIT_S = "240"
_TIMEOUT_S = 900


@click.command()
@click.option("--python", default="3.12", type=click.Choice(tuple(PYTHONS)), show_default=True)
@click.option("--live/--no-live", default=True, help="Also run brokers under real clients.")
@click.option("--compiled", is_flag=True, help="Only run brokers, those of the compiled form.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def main(python: str, *, live: bool, compiled: bool, arguments: tuple[str, ...]) -> None:
    """Run tests with Windows' Python under Wine."""
    if compiled and python != (own := f"{sys.version_info.major}.{sys.version_info.minor}"):
        raise click.UsageError(f"the compiled form is built for the Python that runs this: {own}")
    place = install(python)
    left_out = [f"--ignore={path}" for path in _LEFT_OUT]
    options = ["-q", "-p", "no:cacheprovider", "--timeout", str(_TIMEOUT_S)]
    unit = [str(place / "python"), "-m", "pytest", *options, *left_out, *(arguments or _UNIT)]
    program = build(place) if compiled else place / "coterie"
    is_good = compiled or (
        subprocess.run(unit, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode == 0
    )
    if live:
        os.environ["COTERIE_TEST_COMMAND"] = str(program)
        os.environ["COTERIE_TEST_START_S"] = _START_LIMIT_S
        is_good &= _run_live(options)
        is_good &= _kill()
    sys.exit(0 if is_good else 1)


def _run_live(options: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", *options, "-n", "0", *_LIVE]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def _kill() -> bool:
    """Kill a broker that writes, and compare what is there after each start."""
    # Imported here, because it reads the environment.
    from tests.crash.kills import kill_many

    done = kill_many(_KILLS, servers=1)
    click.echo("\n".join(done.table()))
    return not done.failures


if __name__ == "__main__":
    main()
