"""Only these files use what some operating systems lack; docs/platforms.md has the reasons."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A use of a facility, and the files that may have it.
USES = {
    r"\bos\.(pread|pwrite)\b": {"storage/filesystem.py", "pipeline"},
    r"\bos\.(fdatasync|O_DIRECTORY)\b|F_FULLFSYNC": {"storage/file_sync.py"},
    r"^\s*import fcntl|\bfcntl\.\w+lock": {
        "storage/file_locks.py",
        "storage/file_sync.py",
        "pipeline",
    },
    r"\bimport uvloop|\badd_signal_handler\b|CLOCK_BOOTTIME|pthread_getcpuclockid": {
        "server/operating_system.py"
    },
    r"[\"']/(proc|dev|sys)/": {
        "server/operating_system.py",
        "server/code_pages.py",
        "storage/filesystem.py",
        "pipeline/doctor.py",
    },
    r"\bimport (resource|ctypes)\b": {
        "server/file_handles.py",
        "server/allocator.py",
        "server/code_pages.py",
    },
    r"\bselect\.poll\b": {"cli/main.py"},
    r"\bos\.killpg\b|start_new_session|process_group": {
        "client_check/program.py",
        "processes/child.py",
        "pipeline",
    },
    r"\bsignal\.(SIGSTOP|SIGCONT)\b": {"lab/live"},
    r"\b(SO_[A-Z]+BUF|TCP_NODELAY)\b": {
        "server/network/listening.py",
        "client/connection.py",
    },
    # There is no way to have these elsewhere.
    r"\bos\.(fork|sendfile|posix_fallocate|mkfifo|memfd_create|setsid)\b|AF_UNIX": set(),
}


@pytest.mark.parametrize("use", USES)
def test_only_these_files_use_what_some_systems_lack(use: str) -> None:
    package = ROOT / "coterie"
    found = {
        name
        for path in package.rglob("*.py")
        for name in [path.relative_to(package).as_posix()]
        if re.search(use, path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    allowed = USES[use]
    assert {name for name in found if not name.startswith(tuple(allowed))} == set()
    assert {each for each in allowed if not any(name.startswith(each) for name in found)} == set()
