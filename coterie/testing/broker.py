"""A broker for tests: the server of `coterie serve`, in a thread of the test's process.

Invariants: a broker is reachable when `start` returns; after `close` no thread, socket, file or
task of it is left; a restart keeps address and data.
"""

import asyncio
import errno
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from typing import Any

from coterie.address import Address
from coterie.server.broker import Broker as Server
from coterie.server.config.config import Config
from coterie.server.config.listeners import CannotListen, Listener, prefix_of
from coterie.server.config.sources import ConfigError
from coterie.server.environment import Environment
from coterie.testing.actions import CoordinatorMoves
from coterie.testing.bounds import check
from coterie.testing.errors import BrokerNotStarted, WrongUse
from coterie.testing.faults import Fault
from coterie.testing.interception import ELSEWHERE
from coterie.testing.lifetime import NOT_RUNNING
from coterie.testing.runner import Listening
from coterie.testing.secured import Secured
from coterie.testing.security import Security
from coterie.testing.server_thread import ServerThread
from coterie.testing.topics import create_topic
from coterie.testing.virtual_time import VIRTUAL_ADDRESS, LoopRunner, VirtualClock
from coterie.testing.waiting import Waiting


class Broker(Secured):
    """A broker that runs from `start` to `close`, or in a `with` or `async with` block.

    Attributes:
        host, port: where it listens.
        disk: its files.
        requests: the newest requests of clients, decoded.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, str] | None = None,
        topics: Mapping[str, int] | None = None,
        data_dir: str | PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        flush: str = "never",
        version: str | None = None,
        features: Mapping[str, int] | None = None,
        security: Security | str | None = None,
        users: Mapping[str, str] | Iterable[str] = (),
        acls: Iterable[str] | None = None,
    ) -> None:
        """Describe a broker; `start` starts it.

        Args:
            config: settings by Kafka's names, over those of `TEST_CONFIG`.
            topics: topics to create, with their numbers of partitions.
            data_dir: where to keep data; by default memory, which a restart keeps too.
            host, port: where to listen; port 0 is a free one, the same after a restart.
            flush: when appends are synced: never, commit or interval:MS, as for `coterie serve`.
            version: a release of Kafka, such as "2.8", whose API versions are served; None for
                those of Coterie.
            features: levels of features, such as {"transaction.version": 1}; the others have their
                highest.
            security: "SSL" for TLS with certificates that are made for this broker,
                "SASL_PLAINTEXT" or "SASL_SSL" for logins, or a `Security`; None for plaintext.
            users: who may log in: names, which get passwords of their own, or passwords by name.
            acls: access rules, such as "User:alice ALLOW READ TOPIC orders"; clients may do only
                what they allow. None for no authorizer.

        Raises:
            WrongUse: an unknown `flush`, `version`, feature or protocol, or a number out of its
                bounds.
        """
        check(port=port)
        super().__init__(
            config=config,
            topics=topics,
            data_dir=data_dir,
            address=Address(host, port),
            flush=flush,
            version=version,
            features=features,
            security=security,
            users=users,
            acls=acls,
        )
        self.host, self.port = host, port
        self._listeners: tuple[Listener, ...] = (self._listener,)
        # Where groups are served while their coordinator has moved.
        self._elsewhere: Listening | None = None
        self._server: Server | None = None

    def __repr__(self) -> str:
        where = f"on {self.host}:{self.port}" if self._server is not None else "not running"
        return f"Broker({where})"

    # --- start and close --------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as host:port."""
        _ = self.server
        return f"{self.host}:{self.port}"

    async def _begin_in_thread(self) -> None:
        await self._open(self._topics, self._features)

    async def _finish_in_thread(self) -> list[str]:
        server = self._server
        if server is None:
            return []
        await self._end(server.stop())
        return _connections(server)

    # --- ends on purpose --------------------------------------------------------------------------

    def restart(self) -> Waiting[None]:
        """Stop the broker in order and start it again, with its data and at its address."""
        server = self.server
        return Waiting(self.thread, self._again(server.stop()))

    def kill(self) -> Waiting[None]:
        """End the broker as `kill -9` does and start it again, with its data and at its address.

        Nothing is answered or written any more. What had been written is there afterwards.
        """
        server = self.server
        return Waiting(self.thread, self._again(server.abandon()))

    def lose_power(self) -> Waiting[None]:
        """End the broker as a loss of power does and start it again, at its address.

        Records that were written since the latest start or `flush` and not synced are lost, also
        committed offsets; with `flush="commit"` nothing that was acknowledged is.
        """
        server = self.server
        return Waiting(self.thread, self._again(server.abandon(), self.disk.lose_power))

    async def _end(self, end: Coroutine[Any, Any, None]) -> None:
        """End the server; its second listener first."""
        self._server = None
        if self._elsewhere is not None:
            self._elsewhere.close()
            self._elsewhere = None
        await end

    # --- time -------------------------------------------------------------------------------------

    @asynccontextmanager
    async def virtual_time(self, seed: int = 0) -> AsyncIterator[VirtualClock]:
        """Let the broker run in the event loop of this test, in virtual time, during a block.

        The broker keeps its data. Create clients inside the block and stop them there: asyncio
        clients of any library reach the broker at `bootstrap_servers`, and no others can.

        Args:
            seed: of everything that is left to chance.

        Raises:
            WrongUse: the loop is not asyncio's own, or has a virtual clock already.
        """
        check(seed=seed)
        thread, address = self.thread, self.address
        clock = VirtualClock(asyncio.get_running_loop(), seed)
        if isinstance(thread, LoopRunner):
            raise WrongUse("the broker is in virtual time already, in another event loop")
        assert isinstance(thread, ServerThread), "there are two kinds of runners"
        server = self.server
        real_ms = server.now_ms()
        await asyncio.wrap_future(thread.submit(self._end(server.stop())))
        # The same in each run; nothing listens there.
        self._move_to(VIRTUAL_ADDRESS, clock.now_ms() - real_ms)

        clock.install()
        self._thread = LoopRunner(clock, thread.unawaited)
        try:
            await self._open({})
            yield clock
        finally:
            if self._server is not None:
                await self._end(self._server.stop())
            for wait in thread.unawaited:
                wait.cancel()
            # What the clients have left to do in this turn.
            await asyncio.sleep(0)
            clock.uninstall()
            self._thread = thread
            self._move_to(address, real_ms - clock.now_ms())
            await asyncio.wrap_future(thread.submit(self._open({})))

    def _move_to(self, address: Address, by_ms: int) -> None:
        """Go to another address and another clock, which is ahead by so much."""
        self.host, self.port = address
        self._interception.clock_changed(by_ms)
        if self._interception.elsewhere is not None:
            self._interception.elsewhere = Address(address.host, 0)

    # --- where the broker runs --------------------------------------------------------------------

    async def _open(
        self, topics: Mapping[str, int], features: Mapping[str, int] | None = None
    ) -> None:
        """Start a server where the broker runs, which is here; later starts keep its data."""
        runner = self.thread
        first, *others = self._listeners
        server = self._make(self._new_environment())
        if self._release is not None:
            server.pretend(self._release)
        self._begin_with(server.shared, features or {})
        self._interception.lay_over(server)
        try:
            listeners = (first._replace(address=self.address), *others)
            addresses = await runner.serve(server, listeners)
        except CannotListen as error:
            await server.stop()
            raise BrokerNotStarted(not_listening(error.address, error)) from error
        except ConfigError as error:
            await server.stop()
            raise BrokerNotStarted(f"a setting cannot be used: {error}") from error
        self._server = server
        self.port = addresses[0].port
        # A restart listens at the same addresses.
        self._listeners = tuple(map(_at, listeners, addresses))
        if self._interception.elsewhere is not None:
            await self._listen_elsewhere()
        for name, partitions in topics.items():
            await create_topic(server, name, partitions, {})
        self.disk.flush()

    def _make(self, environment: Environment) -> Server:
        """Return a server; `coterie serve --control` makes another one."""
        return Server(self._described_parts(environment, brokers=1))

    async def _install(self, fault: Fault) -> None:
        if isinstance(fault.action, CoordinatorMoves) and self._elsewhere is None:
            await self._listen_elsewhere()
        await super()._install(fault)

    async def _listen_elsewhere(self) -> None:
        """Serve clients at a second address, where another node seems to be."""
        server = self.server
        server.advertise(ELSEWHERE, self.address)
        wanted = self._interception.elsewhere
        if wanted is None:
            wanted = Address(self.host, 0)
        first = self._listeners[0]
        _copy_settings(server.config, prefix_of(first.name), prefix_of(ELSEWHERE))
        factory = server.factory_of(first._replace(name=ELSEWHERE))
        listening = await self.thread.listen(factory, wanted)
        self._elsewhere = listening
        self._interception.elsewhere = listening.address

    @property
    def address(self) -> Address:
        """Where it listens; port 0 before it has started for the first time."""
        return Address(self.host, self.port)

    @property
    def servers(self) -> Sequence[Server]:
        """The server; see `Views`."""
        return [self.server]

    @property
    def server(self) -> Server:
        """The server, for use in its thread; another one after a restart."""
        if self._server is None:
            raise BrokerNotStarted(NOT_RUNNING)
        return self._server


def _at(listener: Listener, address: Address) -> Listener:
    return listener._replace(address=address)


def _copy_settings(config: Config, prefix: str, other: str) -> None:
    """Let the settings with a prefix be those with another one, too."""
    names = [each for each in config.names if each.startswith(prefix)]
    config.record({each.replace(prefix, other, 1): config.text(each) or "" for each in names})


def _connections(server: Server) -> list[str]:
    count = len(server.connection_quotas)
    return [f"{count} connection{'s' * (count != 1)}"] if count else []


def not_listening(address: Address, error: OSError) -> str:
    """Return why an address cannot be listened on, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return (
            f"{address} is in use by another program; leave the port out to get a free one,"
            " or stop that program"
        )
    return f"can't listen on {address}: {error.strerror or error}"
