"""The broker on a system that lacks what Linux has: files, start and stop, and a group."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.without.facilities import FACILITIES, SYSTEMS, environment_without

ROOT = Path(__file__).parents[2]
LIMIT_S = 500

# Files, locks, recovery; removed and replaced files that are open; `coterie dump log`; an orderly
# stop; produce, consume, rebalance.
SLICE = (
    "tests/unit/storage/test_filesystem.py",
    "tests/unit/storage/test_log_recovery.py",
    "tests/unit/storage/test_log.py::test_a_start_behind_the_end_begins_the_log_anew[os]",
    "tests/unit/storage/test_record_file.py::test_only_the_owner_may_read_the_file",
    "tests/unit/cli/test_dump_log.py::test_directory_in_use_is_read_and_not_changed",
    "tests/live/test_stop.py::test_stored_batches_are_answered_before_a_stop[commit]",
    "tests/live/test_produce_consume.py",
    "tests/live/test_groups.py::test_mixed_consumers_join",
)


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 10)
@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_a_broker_works_without_what_a_system_lacks(system: str) -> None:
    command = [sys.executable, "-m", "tests.without", system, "--", "-q", "-n", "0", *SLICE]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout


# What works on Linux, and must fail where the facility is taken away.
USES = {
    "uvloop": "import uvloop",
    "resource": "import resource",
    "fcntl": "import fcntl",
    "open-files": "file = NamedTemporaryFile(); os.replace(file.name, file.name)",
    "proc": "open('/proc/self/stat').close(); os.listdir('/dev/fd')",
    "mallopt": "ctypes.CDLL(None)",
    "fdatasync": "os.fdatasync",
    "pread": "os.pread, os.pwrite",
    "directories": "os.O_DIRECTORY",
    "boottime": "time.CLOCK_BOOTTIME",
    "thread-clocks": "time.pthread_getcpuclockid",
    "poll": "select.poll",
    "statvfs": "os.statvfs",
    "killpg": "os.killpg",
    "signals": "signal.SIGHUP",
    "signal-handlers": "asyncio.new_event_loop().add_signal_handler(signal.SIGTERM, print)",
}

_IMPORTS = "from tempfile import NamedTemporaryFile"
_ERRORS = (
    "ModuleNotFoundError",
    "FileNotFoundError",
    "AttributeError",
    "NotImplementedError",
    "TypeError",
    "PermissionError",
)


@pytest.mark.parametrize("name", FACILITIES)
def test_processes_lack_what_is_taken_away(name: str) -> None:
    program = f"import asyncio, ctypes, os, select, signal, time\n{_IMPORTS}\n{USES[name]}"
    for names, works in (([], True), ([name], False)):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            cwd=ROOT,
            env=environment_without(names),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) == works, done.stderr
        assert works or done.stderr.splitlines()[-1].partition(":")[0] in _ERRORS, done.stderr
