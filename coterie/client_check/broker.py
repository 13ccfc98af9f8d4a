"""The scripted broker: our own server in memory, and the connections that lead to it.

It has two addresses, those of node 1 and node 2. Both lead to the same server, so a scenario can
move the coordinator of the group to another node.

Invariant: nothing is left after `stop`: no connection, no task, no listener.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.address import Address
from coterie.client_check.connection import LISTENER, ClientConnection
from coterie.client_check.conversation import ClientExchange, Conversation
from coterie.client_check.script import Action, Rule
from coterie.client_check.security import BrokerSecurity
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.api_versions import ApiVersionsResponseApiKey
from coterie.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
)
from coterie.protocol.messages.metadata import MetadataResponseBroker
from coterie.server.broker import Broker as Server
from coterie.server.config.config import Config
from coterie.server.config.listeners import Listener
from coterie.server.data_place import IN_MEMORY
from coterie.server.environment import Environment
from coterie.server.logs.flusher import FlushMode
from coterie.server.security.seeding import add_seeds
from coterie.server.shared_parts import SharedParts
from coterie.testing.actions import AnswerError
from coterie.testing.loopback import ask
from coterie.testing.memory_connections import Accept, accepting
from coterie.testing.topics import create_topic, produce

NODE = 1
OTHER_NODE = 2

_CONFIG = {
    "node.id": str(NODE),
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    # Scripted members send no heartbeats.
    "group.max.session.timeout.ms": "86400000",
    # Soon enough that a scenario sees several; sessions of scripted members outlast each scenario.
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "600000",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
    # Kafka's default, so that clients come as often as they do there.
    "connection.failed.authentication.delay.ms": "100",
    # Each Fetch names all its partitions, so the conversation shows every position.
    "max.incremental.fetch.session.cache.slots": "0",
}
_NO_SYNCS = FlushMode(commit=False, interval_ms=None)
# An API that no release has.
_UNKNOWN_API = ApiVersionsResponseApiKey(api_key=9999, min_version=0, max_version=3)

# The APIs that only the coordinator of a group serves.
_GROUP_APIS = (
    ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.CONSUMER_GROUP_HEARTBEAT,
)  # fmt: skip


class ScriptedBroker:
    """One broker for one run of the program.

    Attributes:
        conversation: what is said.
        server: the server behind the connections.
        addresses: where each node listens.
        is_down: whether connections are refused.
        announced: the versions that ApiVersions announces, if they are other ones than the
            server's; APIs that are not listed are not announced.
        announces_unknown: whether ApiVersions also lists an API that does not exist.
        coordinator_node: the node that FindCoordinator names.
    """

    def __init__(self, environment: Environment, security: BrokerSecurity | None = None) -> None:
        """Make a broker; `start` lets it listen.

        Args:
            environment: of the server.
            security: how clients log in; None for without.
        """
        self.environment = environment
        self.conversation = Conversation(environment.monotonic_s)
        self.addresses: dict[int, Address] = {}
        self.is_down = False
        self.announced: Mapping[ApiKey, tuple[int, int]] | None = None
        self.announces_unknown = False
        self.coordinator_node = NODE
        self.topic_names: dict[bytes, str] = {}
        self._rules: list[Rule] = []
        self._connections: set[ClientConnection] = set()
        self._opened = 0
        self._security = security
        self._accept: Accept | None = None
        config = _CONFIG if security is None else {**security.settings, **_CONFIG}
        given = [f"{name}={value}" for name, value in config.items()]
        shared = SharedParts(Config.load(given), IN_MEMORY, environment, flush=_NO_SYNCS)
        self.server = Server(shared)

    async def start(self, addresses: Mapping[int, Address]) -> None:
        """Start the server; its nodes have these addresses."""
        self.addresses = dict(addresses)
        self.server.advertise(LISTENER, addresses[NODE])
        if self._security is not None:
            add_seeds(self.server, self._security.seeds, ())
            listener = Listener(addresses[NODE], LISTENER, self._security.protocol)
            self._accept = accepting(self.server.factory_of(listener))
        await self.server.begin()

    async def stop(self) -> None:
        """Close every connection and stop the server."""
        self.close_connections()
        await self.server.stop()

    def connection(self, node: int) -> ClientConnection:
        """Return what serves a new connection to a node."""
        return ClientConnection(self, node)

    @property
    def has_acted(self) -> bool:
        """Whether any rule was laid over requests."""
        return bool(self._rules) or self.announced is not None

    def accept(self, transport: asyncio.Transport) -> None:
        """Let the server serve a connection in memory of a client."""
        if self._accept is None:
            self.server.accept(transport)
        else:
            self._accept(transport)

    def limit_logins(self, limit_ms: int) -> None:
        """Limit how long a login lasts from now on (KIP-368)."""
        for mechanisms in self.server.logins.listeners:
            mechanisms.max_session_ms.update(dict.fromkeys(mechanisms.servers, limit_ms))

    # --- connections ------------------------------------------------------------------------------

    def opened(self, connection: ClientConnection) -> int:
        """Note an open connection; return its number."""
        self._connections.add(connection)
        self._opened += 1
        return self._opened

    def closed(self, connection: ClientConnection) -> None:
        """Note that a connection has ended."""
        self._connections.discard(connection)

    def close_connections(self) -> None:
        """Close every connection."""
        for each in list(self._connections):
            each.close()

    # --- the script -------------------------------------------------------------------------------

    def rule(
        self,
        action: Action,
        api: str | None,
        *,
        times: int | None = None,
        skip: int = 0,
        with_field: str = "",
    ) -> Rule:
        """Add a rule after the present ones; see `Rule`."""
        added = Rule(action, api, times=times, skip=skip, with_field=with_field)
        self._rules = [*(each for each in self._rules if not each.is_used_up), added]
        return added

    def rule_for(self, exchange: ClientExchange) -> Rule | None:
        """Return the rule that a request meets."""
        if exchange.api in _GROUP_APIS and exchange.node != self.coordinator_node:
            return Rule(AnswerError(ErrorCode.NOT_COORDINATOR), None)
        return next((each for each in self._rules if each.covers(exchange)), None)

    def is_announced(self, exchange: ClientExchange) -> bool:
        """Return whether ApiVersions announces the version of a request."""
        if self.announced is None:
            return True
        first, last = self.announced.get(exchange.api, (0, -1))
        return first <= exchange.version <= last

    def adapt(self, exchange: ClientExchange, response: Any) -> None:
        """Change what the server says of itself: its versions, and where the coordinator is."""
        if exchange.api is ApiKey.API_VERSIONS:
            self._adapt_versions(response)
        elif exchange.api is ApiKey.FIND_COORDINATOR and self.coordinator_node != NODE:
            address = self.addresses[self.coordinator_node]
            for each in [response, *response.coordinators]:
                each.node_id = self.coordinator_node
                each.host, each.port = address.host, address.port
        elif exchange.api is ApiKey.METADATA:
            address = self.addresses[OTHER_NODE]
            other = MetadataResponseBroker(node_id=OTHER_NODE, host=address.host, port=address.port)
            response.brokers = [*response.brokers, other]

    def _adapt_versions(self, response: Any) -> None:
        if self.announced is not None:
            response.api_keys = [
                ApiVersionsResponseApiKey(api_key=api, min_version=first, max_version=last)
                for api, (first, last) in self.announced.items()
            ]
        if self.announces_unknown:
            response.api_keys = [*response.api_keys, _UNKNOWN_API]

    # --- topics and groups ------------------------------------------------------------------------

    async def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic."""
        await create_topic(self.server, name, partitions, {})
        created = self.server.topics.find(name)
        assert created is not None, "it was created"
        self.topic_names[created.topic_id] = name

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic."""
        return self.server.topics.by_name[name].topic_id

    async def produce(self, topic: str, partition: int, values: Sequence[str]) -> int:
        """Append records; return the offset of the first."""
        return await produce(self.server, topic, partition, values, None, (), None)

    async def expel(self, group_id: str, member_id: str) -> None:
        """Remove a member from a group, as an administrator does; one that is gone is no error."""
        self.conversation.remark("scenario", f"member {member_id} is removed from the group")
        listed = LeaveGroupRequestMember(member_id=member_id)
        request = LeaveGroupRequest(group_id=group_id, members=[listed])
        await ask(self.server, request, LeaveGroupResponse)

    def begin_rebalance(self, group_id: str) -> bool:
        """Let the coordinator begin a rebalance; return whether it could."""
        self.conversation.remark("scenario", "the coordinator begins a rebalance")
        groups = self.server.groups
        reason = "check-client asked for a rebalance"
        began = groups.coordinator.begin_rebalance(group_id, reason, self.server.now_ms())
        groups.apply(began)
        return bool(began.events)
