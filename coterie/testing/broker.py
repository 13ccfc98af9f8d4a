"""A broker for tests: the server of `coterie serve`, in a thread of the test's process.

Invariants: a broker is reachable when `start` returns; after `close` no thread, socket or task of
it is left; a restart keeps address and data.
"""

import asyncio
import errno
import random
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from os import PathLike, fspath
from typing import Any, Self

from coterie.address import Address
from coterie.server.broker import IN_MEMORY
from coterie.server.broker import Broker as Server
from coterie.server.config.config import Config
from coterie.server.config.sources import ConfigError
from coterie.server.environment import Environment
from coterie.server.logging import make_logger
from coterie.server.logs.flusher import FlushMode
from coterie.storage.errors import StorageError
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.testing.client_configs import client_config
from coterie.testing.errors import BrokerLeak, BrokerNotStarted, WrongUse
from coterie.testing.faults import Action, Fault, scope_of
from coterie.testing.groups import Group
from coterie.testing.interception import Interception
from coterie.testing.records import Record, topic_records
from coterie.testing.requests import Requests
from coterie.testing.server_thread import Runner, ServerThread
from coterie.testing.topics import create_topic, produce
from coterie.testing.virtual_time import VIRTUAL_ADDRESS, LoopRunner, VirtualClock
from coterie.testing.waiting import Waiting

# What tests wait for less than users do. Everything else has the defaults of `coterie serve`.
TEST_CONFIG: Mapping[str, str] = {
    # The first member of a group need not wait three seconds for others.
    "group.initial.rebalance.delay.ms": "0",
    # Sessions may be short, so that a test sees one expire.
    "group.min.session.timeout.ms": "100",
    # Four partitions have everything that fifty have, and are made faster.
    "offsets.topic.num.partitions": "4",
}
# Nothing is synced: a test does not survive a loss of power.
_NEVER = FlushMode(commit=False, interval_ms=None)


class Broker:
    """A broker that runs from `start` to `close`, or in a `with` or `async with` block.

    Attributes:
        host, port: where it listens.
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
    ) -> None:
        """Describe a broker; `start` starts it.

        Args:
            config: settings by Kafka's names, over those of `TEST_CONFIG`.
            topics: topics to create, with their numbers of partitions.
            data_dir: where to keep data; by default memory, which a restart keeps too.
            host, port: where to listen; port 0 is a free one, the same after a restart.
        """
        self.host = host
        self.port = port
        self._values = {**TEST_CONFIG, **(config or {})}
        self._topics = dict(topics or {})
        self._data_dir = IN_MEMORY if data_dir is None else fspath(data_dir)
        self._filesystem = MemoryFileSystem() if data_dir is None else None
        self._interception = Interception()
        # Ids of the cluster, topics and members are the same in each run of a test. It is kept over
        # restarts, so that no id is given twice.
        self._random = random.Random(0)  # noqa: S311 - ids of a test, no secrets
        self._thread: ServerThread | LoopRunner | None = None
        self._server: Server | None = None

    def __repr__(self) -> str:
        where = f"on {self.host}:{self.port}" if self._server is not None else "not running"
        return f"Broker({where})"

    # --- its life ---------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the broker and create its topics.

        Raises:
            BrokerNotStarted: the port, the directory or a setting cannot be used.
        """
        if self._thread is not None:
            raise WrongUse("the broker runs already")
        thread = self._thread = ServerThread(f"coterie-broker-{id(self):x}", self._random.randbytes)
        try:
            thread.run(self._open(self._topics))
        except BaseException:
            self._thread = None
            thread.stop()
            raise
        return self

    def close(self) -> None:
        """Stop the broker, and check that nothing of it is left.

        Raises:
            BrokerLeak: a connection, a task or the thread is left.
        """
        thread, server = self._thread, self._server
        if thread is None:
            return
        if isinstance(thread, LoopRunner):
            raise WrongUse("the broker is in virtual time: it is closed after that block")
        self._thread = self._server = None
        left = 0
        if server is not None:
            thread.run(server.stop())
            left = thread.call(lambda: len(server.connection_quotas))
        thread.stop()
        if left:
            raise BrokerLeak(f"{left} connections are left after the broker was closed")

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

    async def _again(self, end: Coroutine[Any, Any, None]) -> None:
        self._server = None
        await end
        await self._open({})

    def advance(self, seconds: float) -> None:
        """Put the broker's clock forward: sessions end, rebalances time out, offsets expire.

        The clocks of clients stay, so this is for what the broker does on its own; `virtual_time`
        is for both.

        Raises:
            WrongUse: the number is negative, or the broker is in virtual time.
        """
        if not isinstance(self._thread, ServerThread):
            raise WrongUse("in virtual time write `await clock.advance(seconds)`")
        if seconds < 0:
            raise WrongUse("time never goes back")
        self._thread.advance(seconds)

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
        clock = VirtualClock(asyncio.get_running_loop(), seed)
        thread, address = self._thread, Address(self.host, self.port)
        if thread is None or isinstance(thread, LoopRunner):
            raise BrokerNotStarted("the broker does not run: call start(), or use `with`")
        server, self._server = self.server, None
        await asyncio.wrap_future(thread.submit(server.stop()))
        # The same in each run; nothing listens there.
        self.host, self.port = VIRTUAL_ADDRESS

        def accept(transport: asyncio.Transport) -> asyncio.BaseProtocol:
            # Another server after a restart; none while it is down.
            if self._server is None:
                raise ConnectionRefusedError(f"nothing listens on {VIRTUAL_ADDRESS}")
            return self._server.accept(transport)

        clock.install(VIRTUAL_ADDRESS, accept)
        self._thread = LoopRunner(clock)
        try:
            await self._open({})
            yield clock
        finally:
            if self._server is not None:
                await self._server.stop()
            # What the clients have left to do in this turn.
            await asyncio.sleep(0)
            clock.uninstall()
            self._thread = thread
            self.host, self.port = address
            await asyncio.wrap_future(thread.submit(self._open({})))

    async def _open(self, topics: Mapping[str, int]) -> None:
        """Start a server where the broker runs, which is here."""
        runner, address = self.thread, Address(self.host, self.port)
        server = self._make(runner.environment(make_logger("error")))
        self._interception.lay_over(server)
        try:
            self.port = (await runner.serve(server, address)).port
        except OSError as error:
            await server.stop()
            raise BrokerNotStarted(_not_listening(address, error)) from error
        self._server = server
        for name, partitions in topics.items():
            await create_topic(server, name, partitions, {})

    def _make(self, environment: Environment) -> Server:
        given = [f"{name}={value}" for name, value in self._values.items()]
        try:
            return Server(
                Config.load(given),
                self._data_dir,
                environment,
                flush=_NEVER,
                filesystem=self._filesystem,
                files_are_private=True,
            )
        except ConfigError as error:
            raise BrokerNotStarted(f"a setting cannot be used: {error}") from error
        except (StorageError, OSError) as error:
            text = f"the data directory {self._data_dir} cannot be used: {error}"
            raise BrokerNotStarted(text) from error

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    @property
    def thread(self) -> Runner:
        """Where the broker runs."""
        if self._thread is None:
            raise BrokerNotStarted("the broker does not run: call start(), or use `with`")
        return self._thread

    @property
    def server(self) -> Server:
        """The server, for use in its thread; another one after a restart."""
        if self._server is None:
            raise BrokerNotStarted("the broker does not run: call start(), or use `with`")
        return self._server

    # --- for clients ------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as host:port."""
        _ = self.server
        return f"{self.host}:{self.port}"

    def client_config(
        self, library: str, *, group_id: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """Return the settings with which a client of a library reaches this broker.

        Args:
            library: "aiokafka", "kafka-python" or "confluent-kafka".
            group_id: makes them those of a consumer that starts at the beginning.
            more: further settings, which win; confluent-kafka's dots are written as underscores.

        Raises:
            WrongUse: another library.
        """
        return client_config(library, self.bootstrap_servers, group_id, more)

    # --- topics and records -----------------------------------------------------------------------

    @property
    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic, without the broker's own topics."""
        server = self.server
        return self.thread.call(
            lambda: {
                topic.name: len(topic.partitions)
                for topic in server.topics.by_name.values()
                if not topic.is_own
            }
        )

    def topic(
        self,
        name: str,
        partitions: int = 1,
        records: Iterable[Any] = (),
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic; return its name.

        Args:
            name: its name.
            partitions: their number.
            records: values to produce, in turn to each partition; see `produce`.
            config: settings of the topic.

        Raises:
            WrongUse: it exists already, or a value cannot be used; the text is Kafka's.
        """
        self.thread.run(create_topic(self.server, name, partitions, config or {}))
        for number, value in enumerate(records):
            self.produce(name, value, partition=number % partitions)
        return name

    def produce(
        self,
        topic: str,
        *values: Any,
        key: bytes | str | None = None,
        partition: int = 0,
        headers: Sequence[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
    ) -> int:
        """Append records to a partition; return the offset of the first.

        Args:
            topic: the topic; it is not created.
            values: bytes, text, or None for a tombstone.
            key, headers, timestamp_ms: of every record.
            partition: its number.

        Raises:
            WrongUse: there are no values, or the broker refuses them.
        """
        if not values:
            raise WrongUse("there is nothing to produce: give at least one value")
        work = produce(self.server, topic, partition, values, key, headers, timestamp_ms)
        return self.thread.run(work)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Return the records of a topic, by partition and offset; with `partition` of one only.

        Raises:
            WrongUse: the topic or partition does not exist.
        """
        return self.thread.run(topic_records(self.server, topic, partition))

    # --- groups, faults, requests -----------------------------------------------------------------

    @property
    def groups(self) -> list[str]:
        """The ids of all groups, sorted."""
        server = self.server
        return self.thread.call(
            lambda: sorted(group.group_id for group in server.coordinator.groups())
        )

    def group(self, group_id: str) -> Group:
        """Return a view of a group, which need not exist yet."""
        _ = self.server
        return Group(self, group_id)

    @property
    def requests(self) -> Requests:
        """The newest requests of clients, decoded."""
        return self._interception.requests

    def fault(
        self,
        action: Action,
        *,
        api: str | None = None,
        version: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        connection_id: int | None = None,
        skip: int = 0,
        times: int | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> Fault:
        """Let requests meet a fault from now on, until it is removed or its `with` block ends.

        Args:
            action: what goes wrong, such as `AnswerError("NOT_COORDINATOR")`.
            api: Kafka's name of an API, such as JoinGroup; by default all of them.
            version, client_id, group, topic, connection_id: narrow the requests down.
            skip: how many requests pass before the first one meets it.
            times: how many requests meet it; by default all.
            probability: with which each of them meets it; `seed` decides which.
            seed: for `probability`.

        Raises:
            WrongUse: an unknown API or error, or a number that makes no sense.
        """
        scope = scope_of(api, version, client_id, group, topic, connection_id)
        fault = Fault(action, scope, skip=skip, times=times, probability=probability, seed=seed)
        self.thread.call(lambda: self._interception.install(fault))
        return fault


def _not_listening(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{address} is in use by another program; leave the port out to get a free one,"
            " or stop that program"
        )
    return f"can't listen on {address}: {error.strerror or error}"
