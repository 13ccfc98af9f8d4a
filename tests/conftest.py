"""What every test shares: drawn examples, signals, and the option to rewrite."""

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.sampling import left_out

# Drawn examples are the same in every run, so a red run can be repeated, and a busy machine is no
# failure. They are half as many as Hypothesis draws by itself, because another run adds none.
# `--hypothesis-profile explore` draws new ones, and as many; `make fuzz` does so too.
settings.register_profile(
    "repeatable",
    max_examples=50,
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

# What a user has chosen for colours must not change what the tests see, also in their processes.
for _variable in ("NO_COLOR", "FORCE_COLOR"):
    os.environ.pop(_variable, None)

# A shell starts programs in the background with SIGINT ignored, and their children inherit that.
# Some tests end a process with SIGINT.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The debug mode of event loops, in which CI runs the tests, makes them half as slow again. It finds
# mistakes of the server and of clients that are run against it, which these folders show.
_DEBUG_MODE = "PYTHONASYNCIODEBUG"
_IN_DEBUG_MODE = ("tests/unit/server/", "tests/live/test_groups", "tests/live/test_consumer_groups")
_debug_mode = os.environ.get(_DEBUG_MODE)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector from the millions of objects that modules and collected tests are.

    They live to the end, so it looks for garbage among them neither while they are made nor later.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Switch the debug mode before the loops and processes of the test are made."""
    if _debug_mode:
        if item.nodeid.startswith(_IN_DEBUG_MODE):
            os.environ[_DEBUG_MODE] = _debug_mode
        else:
            os.environ.pop(_DEBUG_MODE, None)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave cases to the extended form, and let the tests that take long begin.

    Otherwise one worker would wait for the other one at the end.
    """
    if not config.getoption("--extended") and (left := left_out(items)):
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        groups = sorted(str(mark.args[0]) for mark in item.iter_markers("xdist_group"))
        if groups and getattr(item.config.option, "loadgroup", False):
            _put_into_group(item, "_".join(groups))


def _put_into_group(item: pytest.Item, group: str) -> None:
    """Name the group of a test in its id, so that pytest-xdist runs the group in one worker.

    pytest-xdist 3.8 does so with an attribute that pytest has no more since 9.2: each worker would
    start a Spark session, a browser and the other shared processes of its own.
    """
    if not item.nodeid.endswith(f"@{group}"):
        item._id = type(item.id).parse(f"{item.nodeid}@{group}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what was seen into golden files and transcripts; then read the diff",
    )
    parser.addoption(
        "--extended",
        action="store_true",
        help="run all cases of the tests that tests/sampling.py names, which run some otherwise",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether expectations are to be written instead of compared."""
    return bool(request.config.getoption("--rewrite"))
