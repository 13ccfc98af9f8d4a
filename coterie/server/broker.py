"""The broker: everything that belongs to one data directory and one port, its start and its stop.

Start: lock the data directory, open the topics, import the handlers, listen, load the groups.
Requests about groups get COORDINATOR_LOAD_IN_PROGRESS until their partition is loaded.
Stop: stop listening and reading, handle what was received, wait for the disk, give up the groups
(delayed requests get NOT_COORDINATOR), end the connections, close the logs [connections/stop].
"""

import asyncio
from collections.abc import Callable
from typing import Any

from coterie.address import Address
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.protocol.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.server.cluster import ClusterImage, Node
from coterie.server.config.config import Config
from coterie.server.coordinators.host import Host
from coterie.server.coordinators.runtime import CoordinatorRuntime
from coterie.server.environment import Environment
from coterie.server.failures import Failures
from coterie.server.features import Features
from coterie.server.file_handles import DEFAULT_HANDLES, FileHandles
from coterie.server.groups.journal import Journal
from coterie.server.groups.offsets_topic import OffsetsTopic, topic_at_start
from coterie.server.groups.runtime import GroupRuntime
from coterie.server.loggers import BROKER_SERVER
from coterie.server.logs.fetch_sessions import FetchSessionCache
from coterie.server.logs.flusher import RESUME_AFTER_S, Flusher, FlushMode
from coterie.server.logs.maintenance import Maintenance
from coterie.server.logs.partition import Topic
from coterie.server.logs.settings_file import SettingsFile
from coterie.server.logs.topic_changes import Change, OnDisk, TopicChanges, make_now, run_here
from coterie.server.logs.topics import Topics
from coterie.server.network.channel import ConnectionServices
from coterie.server.network.connection import Connection
from coterie.server.network.connection_quotas import ConnectionQuotas
from coterie.server.network.delayed_response import PendingWrites
from coterie.server.network.listening import listen_backlog, set_buffer_sizes
from coterie.server.network.routes import Routes, import_handlers
from coterie.server.network.turns import Turns
from coterie.server.quotas.client_quotas import ClientQuotas
from coterie.server.quotas.routes import throttled_route
from coterie.server.releases import Release
from coterie.server.slices import Slices
from coterie.server.telemetry import Telemetry
from coterie.server.transactions.making import make_transaction_runtime
from coterie.server.transactions.markers import MarkerWriter
from coterie.server.transactions.use import TransactionUses
from coterie.server.workers import Workers
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import LogFailed, StorageError, describe_error, remedy_for
from coterie.storage.filesystem import FileSystem, OsFileSystem
from coterie.storage.memory_filesystem import MemoryFileSystem

# The value of --data-dir that keeps everything in memory, until the process ends.
IN_MEMORY = ":memory:"

# How long stopping waits for the disk. Containers are killed ten seconds after SIGTERM.
DRAIN_TIMEOUT_S = 5.0
_DRAIN_POLL_S = 0.01
# The threads that open logs. Much of their work is Python, which one thread runs at a time: two
# open 3,000 logs sooner than four, and the event loop waits less.
_DISK_THREADS = 2
# How long clients have to read their last responses.
_CLOSE_TIMEOUT_S = 1.0


class Broker(ConnectionServices):
    """One broker.

    Attributes:
        config, environment: the constructor's arguments.
        failures: what failed for good.
        log, loop, now_ms: those of the environment.
        routes, connection_quotas, pending_writes, turns, flusher: used by connections and handlers.
        around_connections: returns what the transport of a new connection talks to, which passes
            everything on to the connection; None for the connection itself.
        slices: does work that takes long, in slices.
        disk: does work that waits for the disk.
        changes: makes changes of topics and settings.
        topics: all topics.
        settings: the stored settings.
        features: the features of the cluster and their levels.
        quotas: the quotas of users, client ids and addresses.
        host: what the runtimes of coordinators use.
        groups, coordinator: the runtime of the group coordinator, and the coordinator.
        offsets_topic: the topic of the group coordinator.
        markers: appends the markers that end transactions.
        transactions: verifies and adds partitions of transactions.
        transaction_runtime: the runtime of the transaction coordinator, which does that.
        runtimes: the runtimes of all coordinators.
        maintenance: the background work on the logs.
        release: the release of Kafka that the broker pretends to be; None to be itself.
        node_id: the id of this broker.
        image: the cluster as clients see it.
        fetch_max_bytes: fetch.max.bytes.
        fetch_sessions: the fetch sessions of all clients.
        telemetry: counts the metrics that clients push.
        started_ms, load_seconds: when the broker was made, and how long it loaded the groups.
        fatal: set to the reason when the broker cannot continue.
    """

    # Compiled handlers do not see attributes of this class, so this one must not be for them.
    around_connections: Callable[[Connection], asyncio.Protocol] | None = None

    def __init__(
        self,
        config: Config,
        data_dir: str,
        environment: Environment,
        *,
        flush: FlushMode,
        handles: FileHandles = DEFAULT_HANDLES,
        filesystem: FileSystem | None = None,
        files_are_private: bool = False,
    ) -> None:
        """Lock the data directory and open its topics; `start` listens.

        Args:
            config: the settings.
            data_dir: a path, or ":memory:".
            environment: event loop, clocks, randomness, threads and log.
            flush: when appends are synced.
            handles: how many files and connections may be open.
            filesystem: where `data_dir` is; by default memory or the operating system's files.
            files_are_private: whether nothing else can remove files of this `filesystem`.

        Raises:
            StorageError, OSError: the directory cannot be used.
        """
        self.config = config
        self.environment = environment
        self.log = environment.loggers.named(BROKER_SERVER)
        self.loop, self.now_ms = environment.loop, environment.now_ms
        self.routes, self.release = Routes(), None
        self.connection_quotas = ConnectionQuotas(environment, config, handles.connections)
        self.pending_writes, self.turns = PendingWrites(self.loop), Turns(environment)
        in_memory = data_dir == IN_MEMORY
        path = "memory" if in_memory else data_dir
        self.failures = Failures(environment, path)
        self.fatal = self.failures.fatal
        self.flusher = Flusher(environment, flush, self.failures.storage_failed)
        self._failed_partitions: set[int] = set()
        self.fetch_max_bytes = config.get_int("fetch.max.bytes")
        self.fetch_sessions = self._make_fetch_sessions()
        self.node_id = config.get_int("node.id")
        # No one else reaches files in memory that are made here.
        is_private = in_memory and (filesystem is None or files_are_private)
        if filesystem is None:
            filesystem = MemoryFileSystem() if in_memory else OsFileSystem()
        self.slices = Slices(environment)
        self.disk = self._disk(in_memory=in_memory)
        self.changes = TopicChanges(environment, self.disk)
        self._data = self._open_directory(filesystem, path, flush, handles)
        self._begin_write_ahead()
        self._record_place(data_dir)
        try:
            self.topics = Topics(self._data, config, environment, self.disk, durable=flush.commit)
            self.settings = self.topics.settings
            self._take_stored(self.settings)
            self.host = self._make_host()
            self.groups = self._make_group_runtime()
            self.markers = self._make_markers()
            self.transaction_runtime = make_transaction_runtime(self, self.host)
        except BaseException:
            self._data.close()
            raise
        self.coordinator = self.groups.coordinator
        self.transactions: TransactionUses = self.transaction_runtime
        self.runtimes: list[CoordinatorRuntime[Any]] = [self.groups, self.transaction_runtime]
        self.maintenance = Maintenance(self, self._data, watches_directory=not is_private)
        self.started_ms, self.load_seconds = self.now_ms(), 0.0
        self._server: asyncio.Server | None = None
        self.failures.when_log_failed += [each.log_failed for each in self.runtimes]
        self.failures.when_directory_lost.append(self._directory_lost)

    def _make_fetch_sessions(self) -> FetchSessionCache:
        slots = self.config.get_int("max.incremental.fetch.session.cache.slots")
        return FetchSessionCache(slots, self.environment.new_session_id)

    def _make_markers(self) -> MarkerWriter:
        writer = MarkerWriter(
            self.environment, self.topics, self.flusher, self.slices, self.failures
        )
        writer.write_offsets_marker = self.groups.write_marker
        return writer

    def _take_stored(self, settings: SettingsFile) -> None:
        self.features = Features(settings, self.config)
        self.quotas, self.telemetry = ClientQuotas(settings, self.config), Telemetry(self.config)
        self.quotas.when_changed.append(self._throttle)
        self._throttle()

    def _record_place(self, data_dir: str) -> None:
        self.image = self._image_without_listeners()
        node_id = str(self.node_id)
        self.config.record({"log.dirs": data_dir, "node.id": node_id, "broker.id": node_id})

    def _open_directory(
        self, filesystem: FileSystem, path: str, flush: FlushMode, handles: FileHandles
    ) -> DataDirectory:
        return DataDirectory.open(
            filesystem,
            path,
            node_id=self.node_id,
            cluster_id=self.environment.new_base64_id(),
            directory_id=self.environment.new_base64_id(),
            durable=flush.commit,
            max_open_files=handles.files,
            checkpoint_lock=self.environment.new_lock(),
            new_file_id=self.environment.new_file_id,
        )

    def _image_without_listeners(self) -> ClusterImage:
        node = Node(self.node_id, {}, self.config.get_text("broker.rack"))
        return ClusterImage(self._data.cluster_id, node)

    def _disk(self, *, in_memory: bool) -> Workers:
        return self.slices if in_memory else self.environment.workers("coterie-disk", _DISK_THREADS)

    def _begin_write_ahead(self) -> None:
        """Let the flusher sync many logs as one, and report what the last stop has left."""
        self.flusher.write_ahead = self._data.write_ahead
        self.flusher.write_ahead_failed = self._write_ahead_failed
        files, entries, skipped = self._data.replayed
        if files:
            self.log.info("write-ahead log replayed", files=files, appends=entries, skipped=skipped)

    def _make_host(self) -> Host:
        return Host(
            self.environment,
            self.flusher,
            self.topics.opener,
            self.pending_writes,
            self.failures.handles_short,
        )

    def _make_group_runtime(self) -> GroupRuntime:
        offsets = topic_at_start(self.topics, self.config)
        group_config = self.config.group_config()._replace(
            # The number of existing partitions counts, whatever the setting is now: another one
            # would look for groups in other partitions [coordinator/partition].
            offsets_topic_num_partitions=len(offsets.partitions)
        )
        journal = Journal(
            self.topics, self.changes, self.config, self.environment, len(offsets.partitions)
        )
        groups = GroupRuntime(
            self.host,
            GroupCoordinator(
                group_config,
                self.environment.new_uuid_text,
                self.now_ms(),
                self.topics.published.image,
            ),
            journal,
            self.slices,
            codec=self.config.get_int("offsets.topic.compression.codec"),
            failed=self.partition_failed,
        )
        self.topics.published.when_changed.append(groups.topic_changed)
        groups.take_over(offsets.partitions)
        self.offsets_topic = OffsetsTopic(self.topics, self.changes, groups)
        interrupted = list(self.topics.deleting.items())
        if interrupted:
            names = list(self.topics.deleting)
            groups.delete_offsets(interrupted, lambda: self._topics_deleted(names))
        return groups

    async def start(
        self,
        host: str,
        port: int,
        advertise: Address | None = None,
        *,
        listener_name: str = "PLAINTEXT",
    ) -> Address:
        """Listen and load the groups; requests are served meanwhile [connections/listening].

        Args:
            host: the address to listen on.
            port: the port to listen on; 0 for any free one.
            advertise: the address that clients are given, if it is another one.
            listener_name: the name of the listener in the settings.

        Returns:
            The address that the broker listens on.

        Raises:
            OSError: the address cannot be used.
        """
        for _ in import_handlers():
            # A signal can end the start.
            await self.environment.next_turn()
        self._server = await self.loop.create_server(
            lambda: self._protocol_of(Connection(self, listener_name)),
            host,
            port,
            backlog=listen_backlog(self.config),
            start_serving=False,
        )
        set_buffer_sizes(self._server.sockets, self.config)
        bound = self._server.sockets[0].getsockname()
        address = Address(host, bound[1])
        advertised = advertise or address
        self.advertise(listener_name, advertised)
        self.config.record(
            {
                "listeners": f"{listener_name}://{address}",
                "advertised.listeners": f"{listener_name}://{advertised}",
            }
        )
        await self._server.start_serving()
        await self.begin()
        return address

    async def begin(self) -> None:
        """Begin the background work and load the groups; `accept` may be called meanwhile."""
        self.maintenance.start()
        began_s = self.environment.monotonic_s()
        for runtime in self.runtimes:
            await runtime.load()
        self.load_seconds = self.environment.monotonic_s() - began_s

    def accept(self, transport: asyncio.Transport, listener: str = "PLAINTEXT") -> Connection:
        """Serve a client on a transport that is connected already, such as one in memory."""
        connection = Connection(self, listener)
        protocol = self._protocol_of(connection)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        return connection

    def _protocol_of(self, connection: Connection) -> asyncio.Protocol:
        around = self.around_connections
        return connection if around is None else around(connection)

    def use_routes(self, routes: Routes) -> None:
        """Serve all connections, those that are open and later ones, by another table of routes."""
        self.routes = routes
        self.connection_quotas.use_routes(routes)
        self._throttle()

    def _throttle(self) -> None:
        """Count and throttle requests and connections if there are quotas, and only then."""
        throttling = self.quotas.throttling
        remade = throttled_route if throttling.throttles_requests else None
        if self.routes.is_remade != (remade is not None):
            self.routes.remake(remade)
        self.connection_quotas.throttling = throttling if throttling.throttles_connections else None

    def pretend(self, release: Release) -> None:
        """Serve what a release of Kafka served, and no more [framing/older-releases]."""
        self.release = release
        self.features.pretend(release)
        self.use_routes(Routes(release.versions))

    def advertise(self, listener: str, address: Address) -> None:
        """Let the clients of a listener find this broker at an address."""
        self.image = self.image.advertising(self.node_id, listener, address)

    def delete_topic(self, topic: Topic, done: Callable[[], None] = lambda: None) -> None:
        """Delete a topic here and now, as `topic_deletion` does it in steps."""
        make_now(self.topic_deletion(topic, done, run_here))

    def topic_deletion(
        self, topic: Topic, done: Callable[[], None], on_disk: OnDisk
    ) -> Change[None]:
        """Delete a topic with its records and with all committed offsets for it.

        Args:
            topic: the topic.
            done: called when no crash can bring any of it back; perhaps at once.
            on_disk: returns work that the change waits for.

        Raises:
            TopicRefused: the disk fails. The topic still exists if it is in `topics.by_name`.
        """
        for partition in topic.partitions:
            self.maintenance.release(partition)
        try:
            yield from self.offsets_topic.deletion(topic, self.topics.deletion(topic, on_disk))
        finally:
            if topic.name not in self.topics.by_name:
                for partition in topic.partitions:
                    if partition.opened_log is not None:
                        self.flusher.forget(partition.opened_log)
                        # A fetch session may keep the partition for long.
                        partition.opened_log = None

                def deleted() -> None:
                    self._topics_deleted([topic.name])
                    done()

                self.groups.delete_offsets([(topic.name, topic.topic_id)], deleted)

    def _topics_deleted(self, names: list[str]) -> None:
        """Remove the files of topics whose deletion is complete."""
        self.topics.deleted(names)
        if TRANSACTIONS_TOPIC in names:
            self.transaction_runtime.topic_deleted()
        if OFFSETS_TOPIC in names:
            self._failed_partitions.clear()
            self.offsets_topic.create()
        self.maintenance.remove_deleted()

    async def stop(self) -> None:
        """Stop in order: nothing acknowledged is lost, and delayed requests are answered."""
        if self._server is not None:
            self._server.close()
        self.connection_quotas.stop_reading()
        self.maintenance.stop()
        self.markers.stop()
        await self._drain()
        for runtime in self.runtimes:
            runtime.stop()
        self.pending_writes.flush()
        self.connection_quotas.end_all()
        await self._wait_for(lambda: not len(self.connection_quotas), _CLOSE_TIMEOUT_S)
        self.connection_quotas.abort_all()
        self.flusher.stop()
        self.disk.stop()
        self.environment.stop()
        try:
            self._data.close(self.disk.run_all)
        except (StorageError, OSError) as error:
            self.log.error("data directory not closed cleanly", error=str(error))  # noqa: TRY400
        self.log.info("broker stopped")

    async def abandon(self) -> None:
        """End as if the process was killed: nothing is answered or synced any more.

        Records of the coordinator that were queued for this turn of the loop are lost, and what the
        operating system has not synced stays as it is. The last facts of the journal are written.
        """
        if self._server is not None:
            self._server.close()
        self.maintenance.stop()
        self.markers.stop()
        self.connection_quotas.abort_all()
        await self._wait_for(lambda: not len(self.connection_quotas), _CLOSE_TIMEOUT_S)
        for runtime in self.runtimes:
            runtime.stop()
        self.flusher.stop()
        self.disk.stop()
        self.environment.stop()
        self._data.abandon()

    async def _drain(self) -> None:
        """Wait until what was received is handled, durable and answered."""
        for runtime in self.runtimes:
            runtime.write()
        self.flusher.begin()
        works = self.flusher, self.disk, self.changes, self.slices, self.turns
        if not await self._wait_for(lambda: all(each.idle for each in works), DRAIN_TIMEOUT_S):
            self.log.error("stopping before the disk has confirmed all writes")

    async def _wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline_s = self.environment.monotonic_s() + timeout_s
        while not condition():
            if self.environment.monotonic_s() >= deadline_s:
                return False
            await self.environment.sleep(_DRAIN_POLL_S)
        return True

    # --- failures ---------------------------------------------------------------------------------

    def _write_ahead_failed(self, error: Exception) -> None:
        """Log that logs are synced one by one, for some time or until the next start."""
        write_ahead = self._data.write_ahead
        is_stopped = write_ahead is not None and write_ahead.stopped
        self.log.error(
            "write-ahead log not used",
            cause=describe_error(error),
            remedy=remedy_for(error),
            until="the next start" if is_stopped else f"{RESUME_AFTER_S:.0f} s from now",
        )

    def partition_failed(self, index: int) -> None:
        """Note that a group partition is not served any more; the last one ends the broker."""
        self._failed_partitions.add(index)
        partitions = self.groups.partitions
        log = partitions[index].opened_log
        reason = "see the lines above"
        if log is not None and log.failed:
            try:
                log.unsynced()
            except LogFailed as error:
                self.failures.log_failed(log, error)
                reason = f"{describe_error(error)}; {remedy_for(error)}"
        if len(self._failed_partitions) == len(partitions):
            text = "no partition of __consumer_offsets can be written any more"
            self.failures.end(f"{text}: {reason}")

    def _directory_lost(self, error: OSError) -> None:
        self.flusher.fail(error)
        for topic in self.topics.all():
            for partition in topic.partitions:
                partition.fail(error)
