"""The broker: all that belongs to one data directory and its listeners, its start and its stop.

Start: lock the data directory, open the topics, import the handlers, listen, load the groups.
Requests about groups get COORDINATOR_LOAD_IN_PROGRESS until their partition is loaded.
Stop: stop listening and reading, handle what was received, wait for the disk, give up the groups
(delayed requests get NOT_COORDINATOR), end the connections, close the logs [connections/stop].
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from coterie.address import Address
from coterie.protocol.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.security.acl_store import AclStore
from coterie.security.credentials import Credentials
from coterie.security.delegation_tokens import DelegationTokens
from coterie.server.cluster import ClusterImage, Node
from coterie.server.config.broker_keys import AUTHORIZER_CLASS
from coterie.server.config.config import Config
from coterie.server.config.listeners import CannotListen, Listener
from coterie.server.controller import Controller
from coterie.server.coordinators.host import Host
from coterie.server.coordinators.runtime import CoordinatorRuntime
from coterie.server.data_place import DataPlace, data_place
from coterie.server.environment import Environment
from coterie.server.failures import Failures
from coterie.server.features import Features
from coterie.server.file_handles import DEFAULT_HANDLES, FileHandles
from coterie.server.groups.making import make_group_runtime
from coterie.server.groups.offsets_topic import OffsetsTopic
from coterie.server.loggers import BROKER_SERVER
from coterie.server.logs.fetch_sessions import FetchSessionCache
from coterie.server.logs.flusher import RESUME_AFTER_S, Flusher, FlushMode
from coterie.server.logs.logs import Logs
from coterie.server.logs.maintenance import Maintenance
from coterie.server.logs.partition import Topic
from coterie.server.metadata.settings_file import SettingsFile
from coterie.server.metadata.topic_changes import Change, TopicChanges, make_now
from coterie.server.metadata.topics import Topics
from coterie.server.network.accepting import Factory, connection_factory
from coterie.server.network.channel import ConnectionServices
from coterie.server.network.connection import Connection
from coterie.server.network.connection_quotas import ConnectionQuotas
from coterie.server.network.delayed_response import PendingWrites
from coterie.server.network.listening import listen_backlog, set_buffer_sizes
from coterie.server.network.routes import Remake, Routes, import_handlers
from coterie.server.network.turns import Turns
from coterie.server.quotas.client_quotas import ClientQuotas
from coterie.server.quotas.routes import throttled_route
from coterie.server.releases import Release
from coterie.server.security.logins import Logins
from coterie.server.security.security_log import SecurityLog
from coterie.server.slices import Slices
from coterie.server.telemetry import Telemetry
from coterie.server.transactions.making import make_transaction_runtime
from coterie.server.transactions.markers import MarkerWriter
from coterie.server.transactions.use import TransactionUses
from coterie.storage.errors import LogFailed, StorageError, describe_error, remedy_for
from coterie.storage.filesystem import FileSystem

if TYPE_CHECKING:
    from coterie.server.tls.certificates import ListenerCertificates

# How long stopping waits for the disk. Containers are killed ten seconds after SIGTERM.
DRAIN_TIMEOUT_S = 5.0
_DRAIN_POLL_S = 0.01
# The threads that open logs. Much of their work is Python, which one thread runs at a time: two
# open 3,000 logs sooner than four, and the event loop waits less.
_DISK = "coterie-disk", 2
# How long clients have to read their last responses.
_CLOSE_TIMEOUT_S = 1.0


class Broker(ConnectionServices):
    """One broker.

    Attributes: those of `ConnectionServices` and of `Services`, and these.
        around_connections: returns what the transport of a new connection talks to, which passes
            everything on to the connection; None for the connection itself.
        disk: does work that waits for the disk.
        host: what the runtimes of coordinators use.
        runtimes: the runtimes of all coordinators.
        maintenance: the background work on the logs.
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
        # What needs no disk; each part needs only parts above it.
        self.config, self.environment = config, environment
        self.log = environment.loggers.named(BROKER_SERVER)
        self.loop, self.now_ms = environment.loop, environment.now_ms
        self.node_id = config.get_int("node.id")
        self.started_ms, self.load_seconds = self.now_ms(), 0.0
        self.slices, self.turns = Slices(environment), Turns(environment)
        self.routes, self.release = Routes(), None
        self.pending_writes = PendingWrites(self.loop)
        self.connection_quotas = ConnectionQuotas(environment, config, handles.connections)
        self.logins = Logins()
        self._servers: list[asyncio.Server] = []
        self.tls_listeners: list[ListenerCertificates] = []
        self.fetch_max_bytes = config.get_int("fetch.max.bytes")
        self.fetch_sessions = self._make_fetch_sessions()
        # The disk, and who is notified when it fails.
        place = data_place(data_dir, filesystem, files_are_private=files_are_private)
        self.failures = Failures(environment, place.path)
        self.fatal = self.failures.fatal
        self.disk = self.slices if place.in_memory else environment.workers(*_DISK)
        self.changes = TopicChanges(environment, self.disk)
        self.flusher = Flusher(environment, flush, self.failures.storage_failed)
        self._failed_partitions: set[int] = set()
        self._data = place.open(environment, handles, self.node_id, durable=flush.commit)
        self.image = self._image_without_listeners(data_dir)
        try:
            self._make_parts(place, durable=flush.commit)
        except BaseException:
            self._data.close()
            raise

    def _make_parts(self, place: DataPlace, *, durable: bool) -> None:
        """Make the parts that need the data directory; each needs only parts above it."""
        config, environment, disk = self.config, self.environment, self.disk
        self._begin_write_ahead()
        # The topics and settings, which the brokers of a cluster share, and the logs of this one.
        lock = environment.new_lock()
        self.settings = SettingsFile(place.filesystem, place.path, lock, durable=durable)
        self.topics: Topics[Topic] = Topics()
        self.logs = Logs(self._data, self.topics, environment, disk, durable=durable)
        self.controller = Controller(config, environment, self.settings, self.logs, self.changes)
        self.controller.take(self._data)
        # What follows from the settings.
        self.credentials, self.acls = Credentials(), AclStore()
        self.tokens = DelegationTokens(config.get_text("delegation.token.secret.key"))
        self.security_log = SecurityLog(
            self._data.security_log, environment, disk, self.flusher.mode
        )
        self._load_security()
        self.features = Features(self.settings, config)
        self.quotas, self.telemetry = ClientQuotas(self.settings, config), Telemetry(config)
        self.access = None
        self._checks: list[Remake] = []
        if config.get_text(AUTHORIZER_CLASS):
            # Imported only by a broker that has one.
            from coterie.server.authorization.making import make_access

            self.access, self._checks = make_access(
                config, self.acls, self.security_log, environment
            )
        elif len(self.acls):
            reason = f"set {AUTHORIZER_CLASS} to let them count"
            self.log.warning("access rules have no effect", rules=len(self.acls), reason=reason)
        # The coordinators: their topics are created here, and their partitions are loaded later.
        self.host = self._make_host()
        self.groups = make_group_runtime(self, self.host, self.partition_failed)
        self.coordinator = self.groups.coordinator
        self.offsets_topic = OffsetsTopic(self.controller, self.groups)
        self.markers = self._make_markers()
        self.transaction_runtime = make_transaction_runtime(self, self.host)
        self.transactions: TransactionUses = self.transaction_runtime
        self.runtimes: list[CoordinatorRuntime[Any]] = [self.groups, self.transaction_runtime]
        # What works in the background, and what is notified of changes of the parts above.
        self.maintenance = Maintenance(self, self._data, watches_directory=not place.is_private)
        self._notice_changes()

    def _load_security(self) -> None:
        """Read all credentials, rules and tokens [security/log-damage]."""
        self.security_log.add_store(self.credentials)
        self.security_log.add_store(self.acls)
        self.security_log.add_store(self.tokens)
        self.security_log.load(self._data.read_security_log())

    def _make_fetch_sessions(self) -> FetchSessionCache:
        slots = self.config.get_int("max.incremental.fetch.session.cache.slots")
        return FetchSessionCache(slots, self.environment.new_session_id)

    def _begin_write_ahead(self) -> None:
        """Let the flusher sync many logs as one, and report what the last stop has left."""
        self.flusher.write_ahead = self._data.write_ahead
        self.flusher.write_ahead_failed = self._write_ahead_failed
        files, entries, skipped = self._data.replayed
        if files:
            self.log.info("write-ahead log replayed", files=files, appends=entries, skipped=skipped)

    def _image_without_listeners(self, data_dir: str) -> ClusterImage:
        node_id = str(self.node_id)
        self.config.record({"log.dirs": data_dir, "node.id": node_id, "broker.id": node_id})
        node = Node(self.node_id, {}, self.config.get_text("broker.rack"))
        return ClusterImage(self._data.cluster_id, node)

    def _make_host(self) -> Host:
        return Host(
            self.environment,
            self.flusher,
            self.logs.opener,
            self.pending_writes,
            self.failures.handles_short,
        )

    def _make_markers(self) -> MarkerWriter:
        return MarkerWriter(
            self.environment,
            self.logs,
            self.flusher,
            self.slices,
            self.failures,
            self.groups.write_marker,
        )

    def _notice_changes(self) -> None:
        self.quotas.when_changed.append(self._throttle)
        self._throttle()
        self.failures.when_log_failed += [each.log_failed for each in self.runtimes]
        self.failures.when_directory_lost.append(self._directory_lost)
        interrupted = dict(self.topics.deleting)
        if interrupted:
            self.groups.delete_offsets(
                list(interrupted.items()), lambda: self._topics_deleted(list(interrupted))
            )

    async def start(self, listeners: Sequence[Listener]) -> list[Address]:
        """Listen and load the groups; requests are served meanwhile [connections/listening].

        Args:
            listeners: where clients connect.

        Returns:
            The address that each of them listens on.

        Raises:
            CannotListen: an address cannot be used.
            ConfigError: a listener cannot be served with its settings.
        """
        for _ in import_handlers():
            # A signal can end the start.
            await self.environment.next_turn()
        addresses = [await self._listen(each) for each in listeners]
        if self.tls_listeners:
            # Imported here, because most brokers have no certificates.
            from coterie.server.tls.certificates import warn_of_expired

            warn_of_expired(self)
        named = list(zip(listeners, addresses, strict=True))
        advertised = [
            f"{each.name}://{each.advertised or address}"
            for each, address in named
            if each.is_advertised
        ]
        self.config.record(
            {
                "listeners": ",".join(f"{each.name}://{address}" for each, address in named),
                "advertised.listeners": ",".join(advertised),
            }
        )
        for server in self._servers:
            await server.start_serving()
        await self.begin()
        return addresses

    async def _listen(self, listener: Listener) -> Address:
        """Bind the socket of a listener, which accepts nothing yet; return its address."""
        host, port = listener.address
        factory = self.factory_of(listener)
        try:
            server = await self.loop.create_server(
                factory, host, port, backlog=listen_backlog(self.config), start_serving=False
            )
        except OSError as error:
            raise CannotListen(listener.address, error) from error
        self._servers.append(server)
        set_buffer_sizes(server.sockets, self.config)
        address = Address(host, server.sockets[0].getsockname()[1])
        if listener.is_advertised:
            self.advertise(listener.name, listener.advertised or address)
        return address

    def factory_of(self, listener: Listener) -> Factory:
        """Return what makes the connections of a listener; raises ConfigError."""
        return connection_factory(self, listener, self._protocol_of)

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
        """Count and throttle requests and connections if there are quotas, and only then.

        A request that the authorizer refuses is counted, too.
        """
        throttling = self.quotas.throttling
        throttled = [throttled_route] if throttling.throttles_requests else []
        remakes = (*self._checks, *throttled)
        if self.routes.remakes != remakes:
            self.routes.remake(remakes)
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
        make_now(self.topic_deletion(topic, done))

    def topic_deletion(self, topic: Topic, done: Callable[[], None]) -> Change[None]:
        """Delete a topic with its records and with all committed offsets for it.

        Args:
            topic: the topic.
            done: called when no crash can bring any of it back; perhaps at once.

        Raises:
            TopicRefused: the disk fails. The topic still exists if it is in `topics.by_name`.
        """
        for partition in topic.partitions:
            self.maintenance.release(partition)
        try:
            yield from self.offsets_topic.deletion(topic, self.controller.deletion(topic))
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
        for server in self._servers:
            server.close()
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
        for server in self._servers:
            server.close()
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
        works = (
            self.flusher, self.disk, self.changes, self.slices, self.turns, self.security_log,
        )  # fmt: skip
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
