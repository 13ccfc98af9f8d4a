"""The life of a cluster for tests: brokers in a thread of the test's process, or in virtual time.

Invariants: all brokers are reachable when `start` returns; a cluster that was closed and is started
again, and a broker that comes back, keep address and data.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from os import PathLike, fspath
from typing import Any, Self, TypeVar, overload

from coterie.address import Address
from coterie.server.broker import Broker as Server
from coterie.server.brokers import MOST_BROKERS, CannotCut, UnknownNode
from coterie.server.brokers import Cluster as Brokers
from coterie.server.config.config import Config
from coterie.server.config.listeners import CannotListen, Listener
from coterie.server.config.sources import ConfigError
from coterie.server.data_place import IN_MEMORY
from coterie.server.logging import make_logger
from coterie.server.logs.flusher import parse_flush_mode
from coterie.server.shared_parts import SharedParts
from coterie.storage.errors import StorageError
from coterie.storage.filesystem import OsFileSystem
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.testing.actions import CoordinatorMoves
from coterie.testing.bounds import check, check_all
from coterie.testing.disk import Disk
from coterie.testing.disk_workers import DiskEnvironment
from coterie.testing.errors import BrokerNotStarted, WrongUse
from coterie.testing.faults import Fault
from coterie.testing.lifetime import NOT_RUNNING
from coterie.testing.moves import Moves
from coterie.testing.pausing import Gate
from coterie.testing.running import TEST_CONFIG, not_listening
from coterie.testing.security_settings import check_security_settings
from coterie.testing.server_thread import ServerThread
from coterie.testing.topics import create_topic
from coterie.testing.versions import release_of
from coterie.testing.views import Views
from coterie.testing.virtual_time import VIRTUAL_ADDRESS, LoopRunner, VirtualClock
from coterie.testing.waiting import Waiting

T = TypeVar("T")

# Kafka's tests have topics with as many replicas as brokers, but no more than three.
MOST_REPLICAS = 3


class RunningCluster(Views):
    """A cluster that runs from `start` to `close`, or in a `with` or `async with` block.

    Attributes:
        disk: the files of its brokers.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        config: Mapping[str, str] | None = None,
        topics: Mapping[str, int] | None = None,
        data_dir: str | PathLike[str] | None = None,
        host: str = "127.0.0.1",
        flush: str = "never",
        version: str | None = None,
    ) -> None:
        """Describe a cluster; `start` starts it.

        Args:
            brokers: how many, from 2 to 9. Their ids are 1, 2, 3, ...
            config: settings by Kafka's names, over those of a broker for tests.
            topics: topics to create, with their numbers of partitions; see `topic`.
            data_dir: where to keep data; by default memory.
            host: where the brokers listen, each at a free port that it keeps.
            flush: when appends are synced: never, commit or interval:MS.
            version: a release of Kafka, such as "2.8", whose API versions are served.

        Raises:
            WrongUse: a value cannot be used.
        """
        super().__init__()
        if brokers not in range(2, MOST_BROKERS + 1):
            raise WrongUse(f"brokers is from 2 to {MOST_BROKERS}, not {brokers!r}")
        check_all("partitions", (topics or {}).values())
        self._count = brokers
        check_security_settings(config or {}, Listener(Address(host, 0)))
        self._values = {**TEST_CONFIG, **(config or {})}
        self._topics = dict(topics or {})
        self._data_dir = IN_MEMORY if data_dir is None else fspath(data_dir)
        files = MemoryFileSystem() if data_dir is None else OsFileSystem()
        self.disk = Disk(files, self._interception)
        self._host = host
        try:
            self._flush = parse_flush_mode(flush)
        except ValueError as error:
            raise WrongUse(f"flush: {error}") from None
        self._release = release_of(version)
        self._random = random.Random(0)  # noqa: S311 - ids of a test, no secrets
        self._brokers: Brokers | None = None
        self._gates: dict[int, Gate] = {}
        self._addresses: dict[int, Address] = {}

    def __repr__(self) -> str:
        addresses = ",".join(map(str, self._addresses.values()))
        return f"Cluster({f'on {addresses}' if self._brokers is not None else 'not running'})"

    @overload
    def start(self) -> Self: ...

    @overload
    def start(self, node_id: int) -> Waiting[None]: ...

    def start(self, node_id: int | None = None) -> Self | Waiting[None]:
        """Start the cluster, or one broker that was killed or stopped, at its address.

        A broker that comes back is in sync at once, and leads what nothing else leads.

        Args:
            node_id: the broker; None for the cluster.

        Raises:
            BrokerNotStarted: a port, the directory or a setting cannot be used.
            WrongUse: the broker runs, or there is no such broker.
        """
        if node_id is None:
            return super().start()
        check(node_id=node_id)
        return self._wait(lambda brokers: brokers.start_broker(node_id))

    # --- virtual time -----------------------------------------------------------------------------

    @asynccontextmanager
    async def virtual_time(self, seed: int = 0) -> AsyncIterator[VirtualClock]:
        """Let the brokers run in the event loop of this test, in virtual time, during a block.

        They keep their data, and broker 1 has the address of a single broker in virtual time. See
        `Broker.virtual_time`.

        Args:
            seed: of everything that is left to chance.

        Raises:
            WrongUse: the loop is not asyncio's own, or has a virtual clock already.
        """
        check(seed=seed)
        thread, brokers, real = self._thread, self._running, self._addresses
        if not isinstance(thread, ServerThread):
            raise WrongUse("the cluster is in virtual time already, in another event loop")
        clock = VirtualClock(asyncio.get_running_loop(), seed)
        real_ms = brokers.shared.environment.now_ms()
        self._brokers = None
        await asyncio.wrap_future(thread.submit(brokers.stop()))
        host, port = VIRTUAL_ADDRESS
        self._addresses = {
            node_id: Address(host, port + number) for number, node_id in enumerate(real)
        }
        for node_id, address in self._addresses.items():
            clock.listeners[address] = self._accepting(node_id, address)
        clock.install()
        self._interception.clock_changed(clock.now_ms() - real_ms)
        self._thread = LoopRunner(clock, thread.unawaited)
        try:
            await self._begin_in_thread()
            yield clock
        finally:
            await self._finish_in_thread()
            for wait in thread.unawaited:
                wait.cancel()
            # What the clients have left to do in this turn.
            await asyncio.sleep(0)
            clock.uninstall()
            self._interception.clock_changed(real_ms - clock.now_ms())
            self._thread, self._addresses = thread, real
            await asyncio.wrap_future(thread.submit(self._begin_in_thread()))

    def _accepting(
        self, node_id: int, address: Address
    ) -> Callable[[asyncio.Transport], asyncio.BaseProtocol]:
        """Return what lets a broker serve a transport in memory, while it runs."""

        def accept(transport: asyncio.Transport) -> asyncio.BaseProtocol:
            server = None if self._brokers is None else self._brokers.brokers.get(node_id)
            if server is None:
                raise ConnectionRefusedError(f"nothing listens on {address}")
            return server.accept(transport)

        return accept

    # --- the thread -------------------------------------------------------------------------------

    @property
    def server_cluster(self) -> Brokers:
        """The brokers and what they share; to be used in their thread."""
        return self._running

    @property
    def servers(self) -> Sequence[Server]:
        """The servers that run, by their ids; see `Views`."""
        return [server for _, server in sorted(self._running.brokers.items())]

    async def _install(self, fault: Fault) -> None:
        brokers, interception = self._running, self._interception
        if isinstance(fault.action, CoordinatorMoves) and len(brokers.brokers) == 1:
            raise WrongUse("the coordinator cannot move: no other broker runs")
        fault.when_removed = lambda: self._end_moves(fault)
        await super()._install(fault)
        if fault.until_ms is not None:
            left_s = (fault.until_ms - interception.now_ms()) / 1000
            brokers.shared.loop.call_later(left_s, interception.end_moves, fault)

    def _end_moves(self, fault: Fault) -> None:
        if self._brokers is not None:
            self.thread.call(lambda: self._interception.end_moves(fault))

    @property
    def _running(self) -> Brokers:
        if self._brokers is None:
            raise BrokerNotStarted(NOT_RUNNING)
        return self._brokers

    def _call(self, function: Callable[[Brokers], T]) -> T:
        brokers = self._running
        return self.thread.call(lambda: function(brokers))

    def _wait(self, work: Callable[[Brokers], Coroutine[Any, Any, None]]) -> Waiting[None]:
        brokers = self._running

        async def explained() -> None:
            try:
                await work(brokers)
            except (CannotCut, UnknownNode) as error:
                raise WrongUse(str(error)) from None

        return Waiting(self.thread, explained())

    def _do(self, change: Callable[[Brokers], None]) -> Waiting[None]:
        async def work(brokers: Brokers) -> None:
            change(brokers)

        return self._wait(work)

    def _new_thread(self) -> ServerThread:
        return ServerThread(self._random.randbytes)

    async def _begin_in_thread(self) -> None:
        runner, shared = self.thread, self._shared_parts()

        def prepare(server: Server) -> None:
            self._gates[server.node_id] = Gate(server)
            if self._release is not None:
                server.pretend(self._release)
            self._interception.lay_over(server)

        self._brokers = brokers = Brokers(shared, serve=runner.serve, prepare=prepare)
        self._interception.now_ms = shared.environment.now_ms
        self._interception.moves = Moves(brokers)
        try:
            started = await brokers.start(self._listeners(shared.node_ids))
        except CannotListen as error:
            raise BrokerNotStarted(not_listening(error.address, error)) from error
        except ConfigError as error:
            raise BrokerNotStarted(f"a setting cannot be used: {error}") from error
        self._addresses = {node_id: addresses[0] for node_id, addresses in started.items()}
        factor = min(MOST_REPLICAS, self._count)
        for name, partitions in self._topics.items():
            if shared.topics.find(name) is None:
                await create_topic(brokers.any_broker, name, partitions, {}, factor)

    def _listeners(self, node_ids: Sequence[int]) -> dict[int, Sequence[Listener]]:
        """Return where the clients of each broker connect."""
        # A cluster that was closed and is started again keeps its addresses.
        return {
            node_id: [Listener(self._addresses.get(node_id, Address(self._host, 0)))]
            for node_id in node_ids
        }

    def _shared_parts(self) -> SharedParts:
        given = [f"{name}={value}" for name, value in self._values.items()]
        try:
            return SharedParts(
                Config.load(given),
                self._data_dir,
                DiskEnvironment(self.thread.environment(make_logger("error")), self._interception),
                flush=self._flush,
                filesystem=self.disk,
                files_are_private=self._data_dir == IN_MEMORY,
                brokers=self._count,
            )
        except ConfigError as error:
            raise BrokerNotStarted(f"a setting cannot be used: {error}") from error
        except (StorageError, OSError) as error:
            text = f"the data directory {self._data_dir} cannot be used: {error}"
            raise BrokerNotStarted(text) from error

    async def _finish_in_thread(self) -> list[str]:
        brokers, self._brokers = self._brokers, None
        if brokers is not None:
            await brokers.stop()
        return []

    def _open_files(self) -> list[str]:
        return list(self.disk.open_files.values())
