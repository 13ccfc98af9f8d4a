"""Several brokers for a test of failover: they are killed, stopped, started, and led elsewhere.

    with cluster(brokers=3) as kafka:
        run_service(kafka.bootstrap_servers)
        kafka.kill(kafka.coordinator_of("billing"))

In a coroutine it is `async with`, and what waits is awaited, as with a single broker. All brokers
run in one thread, over the same logs; see docs/cluster.md.
"""

import random
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any, Self, TypeVar, overload

from coterie.address import Address
from coterie.server.broker import Broker as Server
from coterie.server.brokers import MOST_BROKERS, UnknownNode
from coterie.server.brokers import Cluster as Brokers
from coterie.server.cluster.image import CoordinatorType, Placement
from coterie.server.config.config import Config
from coterie.server.config.listeners import CannotListen, Listener
from coterie.server.config.sources import ConfigError
from coterie.server.data_place import IN_MEMORY
from coterie.server.logging import make_logger
from coterie.server.logs.flusher import parse_flush_mode
from coterie.server.shared_parts import SharedParts
from coterie.storage.errors import StorageError
from coterie.testing.bounds import check, check_all
from coterie.testing.client_configs import CLASSIC, client_config
from coterie.testing.errors import BrokerNotStarted, WrongUse
from coterie.testing.lifetime import NOT_RUNNING, Lifetime
from coterie.testing.pausing import Gate
from coterie.testing.running import TEST_CONFIG, not_listening
from coterie.testing.server_thread import ServerThread
from coterie.testing.topics import create_topic
from coterie.testing.versions import release_of
from coterie.testing.waiting import DEFAULT_TIMEOUT_S, Waiting, until

T = TypeVar("T")

# Kafka's tests have topics with as many replicas as brokers, but no more than three.
_REPLICAS = 3


class Cluster(Lifetime):
    """A cluster that runs from `start` to `close`, or in a `with` or `async with` block."""

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
        if not 2 <= brokers <= MOST_BROKERS:
            raise WrongUse(f"brokers is from 2 to {MOST_BROKERS}, not {brokers}")
        check_all("partitions", (topics or {}).values())
        self._count = brokers
        self._values = {**TEST_CONFIG, **(config or {})}
        self._topics = dict(topics or {})
        self._data_dir = IN_MEMORY if data_dir is None else fspath(data_dir)
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
        return self._wait(lambda brokers: brokers.start_broker(node_id))

    # --- for clients ------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, as host:port,host:port."""
        _ = self._running
        return ",".join(map(str, self._addresses.values()))

    def address(self, node_id: int) -> str:
        """Return the address of a broker, as host:port."""
        _ = self._running
        if node_id not in self._addresses:
            raise WrongUse(f"there is no broker {node_id}")
        return str(self._addresses[node_id])

    def client_config(
        self,
        library: str,
        *,
        group_id: str | None = None,
        protocol: str = CLASSIC,
        **more: Any,
    ) -> dict[str, Any]:
        """Return the settings with which a client reaches the cluster; see that of `Broker`."""
        return client_config(library, self.bootstrap_servers, group_id, more, protocol)

    # --- what is where ----------------------------------------------------------------------------

    @property
    def brokers(self) -> list[int]:
        """The ids of the brokers that run."""
        return self._call(lambda brokers: sorted(brokers.brokers))

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """Return the broker that leads a partition; None if none does."""
        leader_id = self._placement(topic, partition).leader_id
        return None if leader_id < 0 else leader_id

    def epoch_of(self, topic: str, partition: int = 0) -> int:
        """Return the leader epoch of a partition."""
        return self._placement(topic, partition).leader_epoch

    def isr_of(self, topic: str, partition: int = 0) -> list[int]:
        """Return the brokers that are in sync for a partition."""
        return list(self._placement(topic, partition).isr)

    def coordinator_of(self, group_id: str) -> int | None:
        """Return the broker that coordinates a group; None if none does."""
        return self._call(
            lambda brokers: brokers.leadership.image.coordinator(CoordinatorType.GROUP, group_id)
        )

    def transaction_coordinator_of(self, transactional_id: str) -> int | None:
        """Return the broker that coordinates the transactions of an id; None if none does."""
        kind = CoordinatorType.TRANSACTION
        return self._call(
            lambda brokers: brokers.leadership.image.coordinator(kind, transactional_id)
        )

    def _placement(self, topic: str, partition: int) -> Placement:
        found = self._call(lambda brokers: brokers.leadership.image.placed(topic, partition))
        if found is None:
            raise WrongUse(f"there is no partition {topic}-{partition}: create it with topic()")
        return found

    # --- topics -----------------------------------------------------------------------------------

    def topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int | Sequence[Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic; return its name.

        Args:
            name: its name.
            partitions: their number.
            replicas: how many replicas each has, or the brokers of each, the leader first; by
                default as many as there are brokers, but no more than three.
            config: settings of the topic.

        Raises:
            WrongUse: it exists already, or a value cannot be used; the text is Kafka's.
        """
        check(partitions=partitions)
        wanted = min(_REPLICAS, self._count) if replicas is None else replicas
        brokers, settings = self._running, config or {}
        self.thread.run(create_topic(brokers.any_broker, name, partitions, settings, wanted))
        return name

    # --- what goes wrong --------------------------------------------------------------------------

    def kill(self, node_id: int | None, detect_ms: int = 0) -> Waiting[None]:
        """End a broker as `kill -9` does: its connections are reset, and nothing is answered.

        Args:
            node_id: the broker, such as that of `coordinator_of`.
            detect_ms: after which time the others learn of it; until then they name it as before.

        Raises:
            WrongUse: it does not run.
        """
        return self._do(lambda brokers: brokers.kill(_named(node_id), detect_ms))

    def stop(self, node_id: int | None) -> Waiting[None]:
        """Stop a broker in order, as SIGTERM does: others take over before it ends.

        Raises:
            WrongUse: it does not run.
        """
        return self._wait(lambda brokers: brokers.stop_broker(_named(node_id)))

    @contextmanager
    def paused(self, node_id: int | None, detect_ms: int | None = None) -> Iterator[None]:
        """Pause a broker during a block, as SIGSTOP does: it keeps its connections, and is silent.

        Args:
            node_id: the broker.
            detect_ms: after which time the others take it for dead; None for never.

        Raises:
            WrongUse: it does not run.
        """
        paused = _named(node_id)

        def close(brokers: Brokers) -> Gate:
            brokers.running(paused)
            gate = self._gates[paused]
            gate.close()
            if detect_ms is not None:
                brokers.shared.loop.call_later(detect_ms / 1000, detect, brokers, gate)
            return gate

        def detect(brokers: Brokers, gate: Gate) -> None:
            if gate.is_closed and self._gates.get(paused) is gate:
                brokers.detect(paused)

        def reopen(brokers: Brokers) -> None:
            gate.open()
            if self._gates.get(paused) is gate and paused in brokers.brokers:
                brokers.rejoin(paused)

        try:
            gate = self._call(close)
        except UnknownNode as error:
            raise WrongUse(str(error)) from None
        try:
            yield
        finally:
            self._call(reopen)

    def move(self, topic: str, partition: int = 0, *, to: int) -> Waiting[None]:
        """Let another broker lead a partition; its leader epoch grows by one.

        Raises:
            WrongUse: the broker does not run, or there is no such partition.
        """
        return self._do(lambda brokers: brokers.move(topic, partition, to))

    def move_coordinator(self, group_id: str, *, to: int) -> Waiting[None]:
        """Let another broker coordinate a group, with all groups of the same partition.

        Raises:
            WrongUse: the broker does not run.
        """
        kind = CoordinatorType.GROUP
        return self._do(lambda brokers: brokers.move_coordinator(kind, group_id, to))

    def move_transaction_coordinator(self, transactional_id: str, *, to: int) -> Waiting[None]:
        """Let another broker coordinate the transactions of an id, with all of its partition.

        Raises:
            WrongUse: the broker does not run, or nothing has used a transaction yet.
        """
        kind = CoordinatorType.TRANSACTION
        return self._do(lambda brokers: brokers.move_coordinator(kind, transactional_id, to))

    def delay_metadata(self, milliseconds: int) -> None:
        """Let clients be shown each change so much later; the brokers know it at once."""

        def delay(brokers: Brokers) -> None:
            brokers.leadership.propagation_ms = milliseconds

        self._call(delay)

    # --- waits ------------------------------------------------------------------------------------

    def wait_leader(
        self,
        topic: str,
        partition: int = 0,
        *,
        node_id: int | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> Waiting[None]:
        """Wait until a broker leads a partition and runs: a certain one, or any.

        Raises:
            WaitTimedOut: it does not in time.
        """

        def led(brokers: Brokers) -> bool:
            leader = brokers.leadership.leader(topic, partition)
            return leader is not None and node_id in (None, leader.node_id)

        who = "a broker" if node_id is None else f"broker {node_id}"
        return self._until(led, f"{who} leads {topic}-{partition}", timeout)

    def wait_coordinator(
        self,
        group_id: str,
        *,
        node_id: int | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> Waiting[None]:
        """Wait until a broker coordinates a group and has loaded it: a certain one, or any.

        Raises:
            WaitTimedOut: it does not in time.
        """

        def coordinates(brokers: Brokers) -> bool:
            found = brokers.leadership.coordinator(CoordinatorType.GROUP, group_id)
            if found is None or node_id not in (None, found.node_id):
                return False
            index = found.groups.coordinator.partition_for(group_id)
            return not found.groups.is_loading(index)

        who = "a broker" if node_id is None else f"broker {node_id}"
        return self._until(coordinates, f"{who} coordinates group '{group_id}'", timeout)

    def wait_isr(
        self,
        topic: str,
        partition: int = 0,
        *,
        isr: Sequence[int],
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> Waiting[None]:
        """Wait until exactly these brokers are in sync for a partition.

        Raises:
            WaitTimedOut: they are not in time.
        """

        def in_sync(brokers: Brokers) -> bool:
            where = brokers.leadership.image.placed(topic, partition)
            return where is not None and sorted(where.isr) == sorted(isr)

        return self._until(in_sync, f"the ISR of {topic}-{partition} is {sorted(isr)}", timeout)

    def _until(
        self, condition: Callable[[Brokers], bool], what: str, timeout_s: float
    ) -> Waiting[None]:
        brokers, thread = self._running, self.thread

        def picture() -> str:
            return f"live brokers: {', '.join(map(str, brokers.brokers)) or 'none'}"

        async def wait() -> None:
            await until(thread, lambda: condition(brokers), what, timeout_s, picture)

        return Waiting(thread, wait())

    # --- the thread -------------------------------------------------------------------------------

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
            except UnknownNode as error:
                raise WrongUse(str(error)) from None

        return Waiting(self.thread, explained())

    def _do(self, change: Callable[[Brokers], None]) -> Waiting[None]:
        async def work(brokers: Brokers) -> None:
            change(brokers)

        return self._wait(work)

    def _new_thread(self) -> ServerThread:
        return ServerThread(self._random.randbytes)

    async def _begin_in_thread(self) -> None:
        shared = self._shared_parts()

        def prepare(server: Server) -> None:
            self._gates[server.node_id] = Gate(server)
            if self._release is not None:
                server.pretend(self._release)

        self._brokers = brokers = Brokers(shared, prepare=prepare)
        # A cluster that was closed and is started again keeps its addresses.
        listeners = {
            node_id: [Listener(self._addresses.get(node_id, Address(self._host, 0)))]
            for node_id in shared.node_ids
        }
        try:
            started = await brokers.start(listeners)
        except CannotListen as error:
            raise BrokerNotStarted(not_listening(error.address, error)) from error
        self._addresses = {node_id: addresses[0] for node_id, addresses in started.items()}
        factor = min(_REPLICAS, self._count)
        for name, partitions in self._topics.items():
            if shared.topics.find(name) is None:
                await create_topic(brokers.any_broker, name, partitions, {}, factor)

    def _shared_parts(self) -> SharedParts:
        given = [f"{name}={value}" for name, value in self._values.items()]
        assert self._thread is not None, "it runs in its thread"
        try:
            return SharedParts(
                Config.load(given),
                self._data_dir,
                self._thread.environment(make_logger("error")),
                flush=self._flush,
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
        return []


def cluster(brokers: int = 3, **options: Any) -> Cluster:
    """Return a cluster that is not started; see `Cluster` for the options."""
    return Cluster(brokers, **options)


def _named(node_id: int | None) -> int:
    if node_id is None:
        raise WrongUse("there is no such broker now: nothing leads or coordinates that")
    return node_id
