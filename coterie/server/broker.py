"""One broker: its listeners, its coordinators and what clients have open with it.

What it shares with the other brokers of its process is in `SharedParts`.

Start: import the handlers, listen, load the groups. Requests about groups get
COORDINATOR_LOAD_IN_PROGRESS until their partition is loaded.
Stop: stop listening and reading, handle what was received, wait for the disk, give up the groups
(delayed requests get NOT_COORDINATOR), end the connections [connections/stop].
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coterie.address import Address
from coterie.server.cluster.image import ClusterImage, Node
from coterie.server.config.listeners import CannotListen, Listener
from coterie.server.coordinators.host import Host
from coterie.server.coordinators.runtime import CoordinatorRuntime
from coterie.server.groups.making import make_group_runtime, make_internal_topics
from coterie.server.loggers import GROUP_COORDINATOR
from coterie.server.logs.fetch_sessions import FetchSessionCache
from coterie.server.logs.partition import Partition, Topic
from coterie.server.metadata.topic_changes import Change, make_now
from coterie.server.network.accepting import Factory, connection_factory
from coterie.server.network.channel import ConnectionServices
from coterie.server.network.connection import Connection
from coterie.server.network.connection_quotas import ConnectionQuotas
from coterie.server.network.delayed_response import PendingWrites
from coterie.server.network.listening import listen_backlog, set_buffer_sizes
from coterie.server.network.routes import Routes, import_handlers
from coterie.server.network.turns import Turns
from coterie.server.quotas.routes import throttled_route
from coterie.server.releases import Release
from coterie.server.security.logins import Logins
from coterie.server.share.leader import ShareLeader
from coterie.server.share_state.making import make_share_state_runtime
from coterie.server.share_state.persister import Persister
from coterie.server.shared_parts import SharedParts
from coterie.server.transactions.making import make_transaction_runtime
from coterie.server.transactions.markers import MarkerWriter
from coterie.server.transactions.use import TransactionUses

if TYPE_CHECKING:
    from coterie.server.tls.certificates import ListenerCertificates

# How long clients have to read their last responses.
_CLOSE_TIMEOUT_S = 1.0


class Broker(ConnectionServices):
    """One broker.

    Attributes: those of `ConnectionServices` and of `Services`, and these.
        around_connections: returns what the transport of a new connection talks to, which passes
            everything on to the connection; None for the connection itself.
        shared: what it shares with the other brokers of its process.
        disk: does work that waits for the disk.
        host: what the runtimes of coordinators use.
        runtimes: the runtimes of all coordinators.
        maintenance: the background work on the logs.
        started_ms, load_seconds: when the broker was made, and how long it loaded the groups.
        fatal: set to the reason when the broker cannot continue.
    """

    # Compiled handlers do not see attributes of this class, so this one must not be for them.
    around_connections: Callable[[Connection], asyncio.Protocol] | None = None

    def __init__(self, shared: SharedParts, node_id: int | None = None) -> None:
        """Make a broker over what the brokers of its process share; `start` listens.

        Args:
            shared: what they share; it is closed if this fails and no other broker runs.
            node_id: the id; None for that of the settings.

        Raises:
            ConfigError: the settings cannot be used.
        """
        self.shared = shared
        self.node_id = shared.node_ids[0] if node_id is None else node_id
        self._take_shared(shared)
        config, environment = self.config, self.environment
        self.now_ms = environment.now_ms
        self.started_ms, self.load_seconds = self.now_ms(), 0.0
        self.turns = Turns(environment)
        self.routes, self.release = Routes(), None
        self.pending_writes = PendingWrites(self.loop)
        self.connection_quotas = ConnectionQuotas(environment, config, shared.handles.connections)
        self.logins = Logins()
        self._servers: list[asyncio.Server] = []
        self.tls_listeners: list[ListenerCertificates] = []
        self._fetch_max_bytes = config.get_int("fetch.max.bytes")
        slots = config.get_int("max.incremental.fetch.session.cache.slots")
        self.fetch_sessions = FetchSessionCache(slots, environment.new_session_id)
        try:
            self._make_parts()
        except BaseException:
            if not shared.members:
                self._data.close()
            raise
        shared.members.append(self)
        self._notice_changes()

    def _take_shared(self, shared: SharedParts) -> None:
        """Take the parts that all brokers of the process use."""
        self.config, self.environment = shared.config.of_broker(self.node_id), shared.environment
        self.log, self.loop, self.slices = shared.log, shared.loop, shared.slices
        self.failures, self.fatal = shared.failures, shared.failures.fatal
        self.disk, self.changes, self.flusher = shared.disk, shared.changes, shared.flusher
        self.settings, self.topics, self.logs = shared.settings, shared.topics, shared.logs
        self.controller, self.offsets_topic = shared.controller, shared.offsets_topic
        self.journal = shared.journal
        self.credentials, self.acls, self.tokens = shared.credentials, shared.acls, shared.tokens
        self.security_log, self.features = shared.security_log, shared.features
        self.quotas, self.telemetry, self.access = shared.quotas, shared.telemetry, shared.access
        self.maintenance, self.leadership = shared.maintenance, shared.leadership
        self._data = shared.data

    def _make_parts(self) -> None:
        """Make the parts of this broker; each needs only parts above it."""
        config, environment = self.config, self.environment
        leads: Callable[[Partition], bool] = _leads_all
        if self.leadership is None:
            node = Node(self.node_id, {}, config.get_text("broker.rack"))
            self.image = ClusterImage(self._data.cluster_id, [node])
        else:
            self.image = self.leadership.image
            # Imported here, because most processes have one broker.
            from coterie.server.logs.led_logs import LedLogs

            self.logs = LedLogs(self.logs, self.leadership, self.node_id)
            leads = self.logs.leads
        # The coordinators, whose partitions are loaded later.
        host = Host(
            environment,
            self.flusher,
            self.logs.opener,
            self.pending_writes,
            self.failures.handles_short,
            leads,
        )
        if self.leadership is not None:
            loggers = environment.loggers
            host.log = loggers.named_of_broker(GROUP_COORDINATOR, self.node_id)
            host.node_id = self.node_id
        self.host = host
        self.share_state = make_share_state_runtime(self, host)
        self.persister = Persister(self.loop, self.share_state, self.leadership)
        self.groups = make_group_runtime(self, host)
        self.coordinator = self.groups.coordinator
        self.internal_topics = make_internal_topics(self)
        self.markers = self._make_markers()
        self.transaction_runtime = make_transaction_runtime(self, host)
        self.transactions: TransactionUses = self.transaction_runtime
        if self.leadership is not None:
            from coterie.server.transactions.led_elsewhere import UsesOfCluster

            self.transactions = UsesOfCluster(self.leadership, self.node_id)
        self.share = ShareLeader(
            config,
            environment,
            self.logs.opener,
            self.persister,
            self.slices,
            self.groups.keep,
        )
        self.runtimes: list[CoordinatorRuntime] = [
            self.groups,
            self.transaction_runtime,
            self.share_state,
        ]

    def _features_changed(self) -> None:
        if not self.features.serves_share_groups:
            self.share.forget()

    def _make_markers(self) -> MarkerWriter:
        parts = (
            self.environment,
            self.logs,
            self.flusher,
            self.slices,
            self.failures,
            self.groups.write_marker,
        )
        if self.leadership is None:
            return MarkerWriter(*parts)
        from coterie.server.transactions.led_elsewhere import MarkersOfCluster

        return MarkersOfCluster(*parts, leadership=self.leadership, node_id=self.node_id)

    def _notice_changes(self) -> None:
        self.topics.published.when_changed.append(self.groups.topic_changed)
        self.quotas.when_changed.append(self._throttle)
        self.features.when_changed.append(self._features_changed)
        self._throttle()
        self.failures.when_log_failed += [each.log_failed for each in self.runtimes]
        if self.leadership is None:
            # Those of several brokers begin when all are there.
            self.shared.deletions.resume()

    def _ignore_changes(self) -> None:
        """Notice nothing more of the parts that go on without this broker."""
        if self not in self.shared.members:
            # It was killed while it stopped.
            return
        self.shared.members.remove(self)
        self.topics.published.when_changed.remove(self.groups.topic_changed)
        self.quotas.when_changed.remove(self._throttle)
        self.features.when_changed.remove(self._features_changed)
        for each in self.runtimes:
            self.failures.when_log_failed.remove(each.log_failed)

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
        self.shared.begin_work()
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
        remakes = (*self.shared.checks, *throttled)
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
        if self.leadership is None:
            self.image = self.image.advertising(self.node_id, listener, address)
        else:
            self.leadership.advertise(self.node_id, listener, address)

    def most_fetched_bytes(self) -> int:
        """See `Services`."""
        return min(self._fetch_max_bytes, self.connection_quotas.most_response_bytes)

    def delete_topic(self, topic: Topic, done: Callable[[], None] = lambda: None) -> None:
        """Delete a topic here and now, as `topic_deletion` does it in steps."""
        make_now(self.topic_deletion(topic, done))

    def topic_deletion(self, topic: Topic, done: Callable[[], None]) -> Change[None]:
        """See `TopicDeletions`."""
        return self.shared.topic_deletion(topic, done)

    async def stop(self) -> None:
        """Stop in order, with what the brokers share: this is the last one.

        Nothing acknowledged is lost, and delayed requests are answered.
        """
        self.maintenance.stop()
        await self.leave()
        self.shared.close()
        self.log.info("broker stopped")

    async def leave(self) -> None:
        """Answer what was received, give up the groups and end the connections."""
        self.begin_leaving()
        await self.shared.drain([self])
        self.give_up()
        await self.end_connections()

    def begin_leaving(self) -> None:
        """Accept no client and read no request any more, and write what is queued."""
        for server in self._servers:
            server.close()
        self.connection_quotas.stop_reading()
        self.share.end()
        self.markers.stop()
        for runtime in self.runtimes:
            runtime.write()

    def give_up(self) -> None:
        """Give up the groups and transactions, and send the last responses."""
        self.share.stop()
        self.persister.stop()
        for runtime in self.runtimes:
            runtime.stop()
        self._ignore_changes()
        self.pending_writes.flush()
        self.connection_quotas.end_all()

    async def end_connections(self) -> None:
        """Let clients read their last responses for a moment, and close all connections."""
        await self.shared.wait_for(lambda: not len(self.connection_quotas), _CLOSE_TIMEOUT_S)
        self.connection_quotas.abort_all()

    async def abandon(self) -> None:
        """End as if the process was killed: nothing is answered or synced any more.

        Records of the coordinator that were queued for this turn of the loop are lost, and what the
        operating system has not synced stays as it is. The last facts of the journal are written.
        """
        self.maintenance.stop()
        await self.shared.finish_changes()
        self.break_off()
        await self.shared.wait_for(lambda: not len(self.connection_quotas), _CLOSE_TIMEOUT_S)
        self.shared.abandon()

    def break_off(self) -> None:
        """End at once: connections are reset, and nothing is answered or written any more."""
        for server in self._servers:
            server.close()
        self.markers.stop()
        self.connection_quotas.abort_all()
        self.share.stop()
        self.persister.stop()
        for runtime in self.runtimes:
            runtime.stop()
        self._ignore_changes()


def _leads_all(_partition: Partition) -> bool:
    return True
