"""The two brokers of a comparison: a Kafka with SASL, and ours with principals that a test sets.

The Kafka has `super.users=User:ANONYMOUS`, a plaintext listener for it, and a SASL_PLAINTEXT
listener on the next port, where the password of every user is `x`. `README.md` in
`tests/golden/access` has its settings.
"""

import re
import socket
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from coterie.address import Address
from coterie.conversation.learnt_names import LearntNames
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest
from coterie.security.acl import EVERYTHING, Acl
from coterie.security.acl_messages import (
    creation_request,
    deletion_request,
    described_acls,
    description_request,
)
from coterie.server.authorization.access import STANDARD_AUTHORIZER
from coterie.server.broker import Broker
from coterie.server.network.connection import Connection
from tests.compared.answers import UNORDERED, Conversation
from tests.unit.server.running import RunningBroker, SocketClient

SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": "50",
    # Kafka has no such topic.
    "journal.enable": "false",
}
# Kafka keeps these in hash tables.
_UNORDERED = (*UNORDERED, "groups", "results_by_topic", "topic_results", "transaction_states")
_PASSWORD = "x"
# How long Kafka's broker and controller may take to hear of a change of the rules.
SETTLING_S = 0.15
PAUSE_S = 0.05
# Texts that name objects of Kafka's process, and ids that differ in each run.
_INTERNAL = re.compile(r"Request Request\(.*? needs [A-Z_]+ permission\.")
_CLUSTER_TEXT = "Cluster authorization failed."
_VARYING = re.compile(
    r"(?<=[ {]producer_id[:=] )\d+|(?<=[ {]producer_id=)\d+|(?<=cluster_id=)[\w-]{22}"
    r"|(?<=port[:=] )\d+|(?<=host: )[\w.]+|(?<=host=)[\w.]+|(?<=total_bytes: )-?\d+"
    r"|(?<=usable_bytes: )-?\d+|(?<=log_dir: )[^,}]+"
)


class Side:
    """One of the brokers."""

    def __init__(self) -> None:
        self._names = LearntNames("\0")
        self._clients: dict[str, Conversation] = {}
        self._sockets: list[SocketClient] = []
        self._sockets_by_user: dict[str, SocketClient] = {}
        self.admin = self._admin()

    def _admin(self) -> SocketClient:
        raise NotImplementedError

    def _connect(self, user: str) -> SocketClient:
        raise NotImplementedError

    def settle(self, count: int) -> None:
        """Wait until all of the broker knows this many rules."""

    def begin(self, topics: Iterable[str], keys: Iterable[tuple[int, str]]) -> None:
        """Create topics, and have the coordinators of some keys."""
        self.call(
            CreateTopicsRequest(
                topics=[
                    CreateTopicsRequestTopic(
                        name=name,
                        num_partitions=1,
                        replication_factor=1,
                        assignments=[],
                        configs=[],
                    )
                    for name in topics
                ],
                timeout_ms=10_000,
            ),
            7,
        )
        for kind, key in keys:
            deadline_s = time.monotonic() + 20
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            while self.call(request, 4).coordinators[0].error_code:
                assert time.monotonic() < deadline_s, "there is no coordinator"
                time.sleep(PAUSE_S)
        producer = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        while self.call(producer, 4).error_code:
            time.sleep(PAUSE_S)
        time.sleep(SETTLING_S)
        described = self.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
        for each in described.topics:
            self._names.topic_ids[each.name] = each.topic_id

    def call(self, request: Any, version: int) -> Any:
        """Send a request of the administrator."""
        return self.admin.call(request, version)

    def set_rules(self, acls: Iterable[Acl]) -> None:
        """Have these rules, and no others."""
        self.call(deletion_request([EVERYTHING]), 3)
        wanted = list(dict.fromkeys(acls))
        for first in range(0, len(wanted), 500):
            results = self.call(creation_request(wanted[first : first + 500]), 3).results
            assert not any(each.error_code for each in results), results
        self.settle(len(wanted))

    def rule_count(self) -> int:
        """Return how many rules there are."""
        return len(described_acls(self.call(description_request(EVERYTHING), 3)))

    def answer(self, line: str) -> str:
        """Send the request of a line as the user that it names; return the line of the answer."""
        user = line.partition(">")[0]
        try:
            found = self._conversation(user).answer(line)
        except OSError:
            found = f"{user}< closed"
        if found.endswith("< closed"):
            del self._clients[user]
        return _VARYING.sub("*", _INTERNAL.sub(_CLUSTER_TEXT, found))

    def call_as(self, user: str, request: Any, version: int) -> Any:
        """Send a request as a user."""
        self._conversation(user)
        return self._sockets_by_user[user].call(request, version)

    def _conversation(self, user: str) -> Conversation:
        if user not in self._clients:
            client = self._connect(user)
            self._sockets.append(client)
            self._sockets_by_user[user] = client
            self._clients[user] = Conversation(client, self._names, _UNORDERED)
        return self._clients[user]

    @property
    def topic_ids(self) -> dict[str, bytes]:
        """The ids of the topics that were there at the beginning."""
        return self._names.topic_ids

    def topic_name(self, topic_id: bytes) -> str:
        """Return the name of a topic, or nothing if it is not there any more."""
        asked = [MetadataRequestTopic(name=None, topic_id=topic_id)]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        return str(self.call(request, 12).topics[0].name or "")

    def forget_clients(self) -> None:
        """Close the connections of all users."""
        for each in self._sockets:
            each.socket.close()
        self._sockets.clear()
        self._clients.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.forget_clients()
        self.admin.socket.close()


class KafkaSide(Side):
    """A running Kafka."""

    def __init__(self, address: Address) -> None:
        self._address = address
        super().__init__()

    def _admin(self) -> SocketClient:
        return SocketClient(socket.create_connection(self._address, timeout=20))

    def _connect(self, user: str) -> SocketClient:
        where = self._address.host, self._address.port + 1
        client = SocketClient(socket.create_connection(where, timeout=20))
        assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        token = f"\0{user}\0{_PASSWORD}".encode()
        assert client.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
        return client

    def settle(self, count: int) -> None:
        """Wait until all of the broker knows this many rules."""
        while self.rule_count() != count:
            time.sleep(PAUSE_S)
        time.sleep(SETTLING_S)


class OurSide(Side):
    """Our broker in this process."""

    def __init__(self, settings: Mapping[str, str] = SETTINGS) -> None:
        self._next_user = ""
        self._running = RunningBroker(dict(settings), prepare=self._prepare)
        self._running.__enter__()
        super().__init__()

    def _prepare(self, broker: Broker) -> None:
        def around(connection: Connection) -> Connection:
            if self._next_user:
                name = f"User:{self._next_user}"
                connection.client = connection.client._replace(principal=name)
            return connection

        broker.around_connections = around

    def _admin(self) -> SocketClient:
        return self._running.client()

    def _connect(self, user: str) -> SocketClient:
        self._next_user = user
        client = self._running.client()
        # The connection is accepted when its first request is answered.
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[]), 4)
        self._next_user = ""
        return client

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._running.stop()
