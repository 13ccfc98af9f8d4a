"""The life of a cluster for tests: brokers in a thread of the test's process, or in virtual time.

Invariants: all brokers are reachable when `start` returns; a cluster that was closed and is started
again, and a broker that comes back, keep address and data.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from typing import Any, Self, TypeVar, overload

from coterie.address import Address
from coterie.server.broker import Broker as Server
from coterie.server.brokers import MOST_BROKERS, CannotCut, UnknownNode
from coterie.server.brokers import Cluster as Brokers
from coterie.server.config.listeners import CannotListen, Listener
from coterie.server.config.sources import ConfigError
from coterie.server.environment import Environment
from coterie.server.shared_parts import SharedParts
from coterie.testing.actions import CoordinatorMoves
from coterie.testing.bounds import check
from coterie.testing.broker import not_listening
from coterie.testing.errors import BrokerNotStarted, WrongUse
from coterie.testing.faults import Fault
from coterie.testing.lifetime import NOT_RUNNING
from coterie.testing.moves import Moves
from coterie.testing.pausing import Gate
from coterie.testing.secured import Secured
from coterie.testing.security import Security
from coterie.testing.server_thread import ServerThread
from coterie.testing.topics import create_topic
from coterie.testing.virtual_time import VIRTUAL_ADDRESS, LoopRunner, VirtualClock
from coterie.testing.waiting import Waiting

T = TypeVar("T")

# Kafka's tests have topics with as many replicas as brokers, but no more than three.
MOST_REPLICAS = 3


class RunningCluster(Secured):
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
        features: Mapping[str, int] | None = None,
        security: Security | str | None = None,
        users: Mapping[str, str] | Iterable[str] = (),
        acls: Iterable[str] | None = None,
    ) -> None:
        """Describe a cluster; `start` starts it.

        Args:
            brokers: how many, from 2 to 9. Their ids are 1, 2, 3, ...
            config: settings by Kafka's names, over those of a broker for tests.
            topics: topics to create, with their numbers of partitions; see `topic`.
            data_dir: where to keep data; by default memory.
            host: where the brokers listen, each at a free port that it keeps.
            flush: when appends are synced: never, commit or interval:MS.
            version, features: the release of Kafka whose API versions are served, and levels of
                features; see `Broker`.
            security, users, acls: TLS, logins and access rules of all brokers; see `Broker`.

        Raises:
            WrongUse: a value cannot be used.
        """
        if brokers not in range(2, MOST_BROKERS + 1):
            raise WrongUse(f"brokers is from 2 to {MOST_BROKERS}, not {brokers!r}")
        super().__init__(
            config=config,
            topics=topics,
            data_dir=data_dir,
            # Each has a free port of its own.
            address=Address(host, 0),
            flush=flush,
            version=version,
            features=features,
            security=security,
            users=users,
            acls=acls,
        )
        self._count = brokers
        self._brokers: Brokers | None = None
        self._gates: dict[int, Gate] = {}
        self._addresses: dict[int, Address] = {}
        # A cluster that is started again keeps its addresses.
        self._listeners: dict[int, Sequence[Listener]] = {}

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
        return self._wait(lambda brokers: self._start_broker(brokers, node_id))

    async def _start_broker(self, brokers: Brokers, node_id: int) -> None:
        await brokers.start_broker(node_id)
        self._renew_users([brokers.running(node_id)])

    # --- ends on purpose --------------------------------------------------------------------------

    def restart(self, node_id: int | None = None) -> Waiting[None]:
        """Stop one broker in order and start it again, or all, with their data and addresses.

        Args:
            node_id: the broker; None for all of them, also those that are down.

        Raises:
            WrongUse: the broker does not run.
        """
        if node_id is None:
            return Waiting(self.thread, self._again(self._running.stop()))
        check(node_id=node_id)

        async def work(brokers: Brokers) -> None:
            await brokers.stop_broker(node_id)
            await self._start_broker(brokers, node_id)

        return self._wait(work)

    def lose_power(self) -> Waiting[None]:
        """End all brokers as a loss of power does and start them again, at their addresses.

        They are on one machine. Records that were written since the latest start or `flush` and not
        synced are lost, also committed offsets; with `flush="commit"` nothing that was acknowledged
        is.
        """
        return Waiting(self.thread, self._again(self._running.abandon(), self.disk.lose_power))

    async def _end(self, end: Coroutine[Any, Any, None]) -> None:
        self._brokers = None
        await end

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
        thread, brokers, real = self._thread, self._running, self._listeners
        if not isinstance(thread, ServerThread):
            raise WrongUse("the cluster is in virtual time already, in another event loop")
        clock = VirtualClock(asyncio.get_running_loop(), seed)
        real_ms = brokers.shared.environment.now_ms()
        await asyncio.wrap_future(thread.submit(self._end(brokers.stop())))
        host, port = VIRTUAL_ADDRESS
        self._listeners = {
            node_id: [self._listener._replace(address=Address(host, port + number))]
            for number, node_id in enumerate(real)
        }
        clock.install()
        self._interception.clock_changed(clock.now_ms() - real_ms)
        self._thread = LoopRunner(clock, thread.unawaited)
        try:
            await self._open({})
            yield clock
        finally:
            await self._finish_in_thread()
            for wait in thread.unawaited:
                wait.cancel()
            # What the clients have left to do in this turn.
            await asyncio.sleep(0)
            clock.uninstall()
            self._interception.clock_changed(real_ms - clock.now_ms())
            self._thread, self._listeners = thread, real
            await asyncio.wrap_future(thread.submit(self._open({})))

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

    async def _begin_in_thread(self) -> None:
        await self._open(self._topics, self._features)

    async def _open(
        self, topics: Mapping[str, int], features: Mapping[str, int] | None = None
    ) -> None:
        """Start all brokers where they run, which is here; later starts keep their data."""
        shared = self._shared_parts(self._new_environment())
        self._begin_with(shared, features or {})

        self._brokers = brokers = Brokers(
            shared, serve=self.thread.serve, prepare=self._prepare_server
        )
        self._interception.moves = Moves(brokers)
        try:
            await brokers.start(self._listeners or self._first_listeners(shared.node_ids))
        except CannotListen as error:
            raise BrokerNotStarted(not_listening(error.address, error)) from error
        except ConfigError as error:
            raise BrokerNotStarted(f"a setting cannot be used: {error}") from error
        self._listeners = brokers.listeners
        self._addresses = {node_id: each[0].address for node_id, each in self._listeners.items()}
        factor = min(MOST_REPLICAS, self._count)
        for name, partitions in topics.items():
            if shared.topics.find(name) is None:
                await create_topic(brokers.any_broker, name, partitions, {}, factor)
        self.disk.flush()

    def _prepare_server(self, server: Server) -> None:
        """Prepare a server before it serves."""
        self._gates[server.node_id] = Gate(server)
        if self._release is not None:
            server.pretend(self._release)
        self._interception.lay_over(server)

    def _first_listeners(self, node_ids: Sequence[int]) -> dict[int, Sequence[Listener]]:
        """Return where the clients of each broker connect after the first start."""
        return {node_id: [self._listener] for node_id in node_ids}

    def _shared_parts(self, environment: Environment) -> SharedParts:
        """Return what the brokers share; `coterie serve --control` opens something else."""
        return self._described_parts(environment, self._count)

    async def _finish_in_thread(self) -> list[str]:
        if self._brokers is not None:
            await self._end(self._brokers.stop())
        return []
