"""The fixtures behind `@pytest.mark.kafka(virtual_time=True)`, for pytest-asyncio and anyio.

The broker is in virtual time from before the first fixture that uses it until after the last one,
so fixtures can make clients too. The clock is that of the event loop of the test, so a fixture of
the same plugin and of the same loop begins and ends the virtual time.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from coterie.testing import Broker, Cluster

LoopScope = Literal["session", "package", "module", "class", "function"]

# What the mark says about the broker, and its seed.
OPTIONS = pytest.StashKey[tuple[Mapping[str, Any], int]]()
_LOOP_SCOPES: tuple[LoopScope, ...] = ("session", "package", "module", "class", "function")
_FIXTURE = "_coterie_in_virtual_time"


def fixtures(config: pytest.Config) -> ModuleType:
    """Return a plugin with these fixtures; those of pytest-asyncio are there if that is installed.

    pytest looks for fixtures in modules.
    """
    found = ModuleType(f"{__name__}.fixtures")
    name = f"{_FIXTURE}_anyio"
    setattr(found, name, pytest.fixture(name=name)(_new_fixture()))
    if config.pluginmanager.hasplugin("asyncio"):
        import pytest_asyncio

        for scope in _LOOP_SCOPES:
            name = f"{_FIXTURE}_{scope}"
            # Each has a function of its own, because the plugin notes the scope there.
            made = pytest_asyncio.fixture(loop_scope=scope, name=name)(_new_fixture())
            setattr(found, name, made)
    return found


def broker_in_virtual_time(
    request: pytest.FixtureRequest, options: Mapping[str, Any], seed: int
) -> "Broker | Cluster":
    """Return a broker, or several, in virtual time, in the event loop of the requesting test.

    Raises:
        pytest.UsageError: the test has no event loop of asyncio.
    """
    if not inspect.iscoroutinefunction(inspect.unwrap(request.function)):
        raise pytest.UsageError(
            "virtual_time=True is for `async def` tests: a plain test has no event loop whose"
            " clock could jump; kafka.advance(seconds) puts the broker's clock forward"
        )
    request.node.stash[OPTIONS] = options, seed
    broker: Broker | Cluster = request.getfixturevalue(_fixture_of(request))
    return broker


def _fixture_of(request: pytest.FixtureRequest) -> str:
    """Return the name of the fixture for the event loop of a test."""
    if "anyio_backend" in request.fixturenames:
        if request.getfixturevalue("anyio_backend_name") != "asyncio":
            raise pytest.UsageError("virtual time needs anyio's backend asyncio")
        return f"{_FIXTURE}_anyio"
    mark = request.node.get_closest_marker("asyncio")
    if mark is None:
        raise pytest.UsageError(
            "virtual_time=True needs pytest-asyncio or anyio: mark the test @pytest.mark.asyncio or"
            " @pytest.mark.anyio"
        )
    scope = mark.kwargs.get("loop_scope") or request.config.getini(
        "asyncio_default_test_loop_scope"
    )
    return f"{_FIXTURE}_{scope or 'function'}"


def _new_fixture() -> Callable[[pytest.FixtureRequest], "AsyncIterator[Broker | Cluster]"]:
    async def in_virtual_time(request: pytest.FixtureRequest) -> "AsyncIterator[Broker | Cluster]":
        # Every run of pytest imports this module, so it imports little.
        from coterie.pytest_report import explained
        from coterie.testing.making import described_brokers

        options, seed = request.node.stash[OPTIONS]
        with explained():
            async with described_brokers(**options) as broker, broker.virtual_time(seed):
                yield broker

    return in_virtual_time
