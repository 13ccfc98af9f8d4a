"""Where a broker of a test runs, and where its waits are done."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from coterie.address import Address
from coterie.server.broker import Broker
from coterie.server.config.listeners import Listener
from coterie.server.environment import Environment

if TYPE_CHECKING:
    from coterie.server.logging import Logger

T = TypeVar("T")

# The waits that were begun inside of event loops and that nothing has awaited, each with the line
# of the test that began it.
Unawaited = dict["Future[Any] | asyncio.Task[Any]", str]


class Submits(Protocol):
    """Where the work of a wait is done.

    Attributes:
        unawaited: the waits that nothing has awaited yet; they are leaks of the broker.
    """

    unawaited: Unawaited

    def check_waiter(self) -> None:
        """Check that what runs there can be waited for here.

        Raises:
            WrongUse: it cannot.
        """

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T] | asyncio.Task[T]":
        """Begin a coroutine there."""

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine there; this thread runs no event loop."""


class Listening(NamedTuple):
    """A further address at which clients are served.

    Attributes:
        address: the address.
        close: accepts no client any more.
    """

    address: Address
    close: Callable[[], object]


class Runner(Submits, Protocol):
    """Where a broker runs: a thread of its own, or the event loop of the test (virtual time)."""

    def environment(self, log: "Logger") -> Environment:
        """Return the environment of a broker there."""

    async def serve(self, server: Broker, listeners: Sequence[Listener]) -> Sequence[Address]:
        """Let a broker serve clients; return the address of each listener with its real port.

        Raises:
            CannotListen: an address cannot be used.
            ConfigError: a listener cannot be served with its settings.
        """

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], address: Address
    ) -> Listening:
        """Serve clients at a further address, with a new protocol for each; port 0 is a free one.

        Raises:
            OSError: the address cannot be used.
        """

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine."""

    def call(self, function: Callable[[], T]) -> T:
        """Return what a function returns there."""

    async def until(self, condition: Callable[[], T | None], timeout_s: float) -> T | None:
        """Wait there until the result of a condition is true; return it, or None at last."""
