"""What every test shares: drawn examples, signals, a second try, and the option to rewrite."""

import signal
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Drawn examples are the same in every run, so a red run can be repeated, and a busy machine is no
# failure. `--hypothesis-profile explore` draws new ones; `make fuzz` does so too.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

# A shell starts programs in the background with SIGINT ignored, and their children inherit that.
# Some tests end a process with SIGINT.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests in these directories use real sockets, processes, threads or a Spark session, and wait for
# them. A machine that stops for seconds fails them, so each gets a second try. pytest prints
# every rerun in its summary.
REAL_TIME = [
    Path(__file__).parent / name for name in ("crash", "fuzz", "lab/live", "live", "pipeline")
]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let a worker send what it counts at once.

    Before each test pytest-rerunfailures writes twice to a socket and then reads from it. With
    Nagle's algorithm the second write waits for the acknowledgement of the first one, 40 ms.
    """
    counts = getattr(getattr(config, "failures_db", None), "sock", None)
    if counts is not None and hasattr(config, "workerinput"):
        counts.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that depend on real time for a second try; not with `--reruns 0`."""
    if config.getoption("reruns") == 0:
        return
    for item in items:
        if any(directory in item.path.parents for directory in REAL_TIME):
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=[".*"]))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what was seen into golden files and transcripts; then read the diff",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether expectations are to be written instead of compared."""
    return bool(request.config.getoption("--rewrite"))
