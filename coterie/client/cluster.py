"""A cluster as seen from its bootstrap addresses: finding the right broker, and retrying.

A coordinator that is loading or moving and a partition between two leaders are normal states of a
healthy cluster. Requests that meet them are retried until the timeout [client/retries]. All other
responses, errors included, are returned to the caller at once.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self, TypeVar

from coterie.address import Address
from coterie.client.connection import Connection, Deadline
from coterie.client.errors import BrokerUnreachable, ClientError, Refused
from coterie.client.nodes import Node, Responsible, coordinator_of, leader_of, nodes_of
from coterie.client.security import PLAINTEXT, Security
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.protocol.wire import Message

R = TypeVar("R", bound=Message)
K = TypeVar("K", str, tuple[str, int])
V = TypeVar("V")

TopicPartition = tuple[str, int]

DEFAULT_TIMEOUT_S = 15.0
DEFAULT_PORT = 9092

# The pauses between retries double from the first to the longest: most changes of a cluster take
# milliseconds, few take seconds.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
# A caller that can do without a key gets three rounds, 350 ms [client/retries].
_LAST_PAUSE_FOR_MISSING_S = 0.3

RETRIABLE_COORDINATOR_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
RETRIABLE_LEADER_ERRORS = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
# For lack of rights to a group, or to a topic that it reads.
AUTHORIZATION_ERRORS = frozenset(
    {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)


class Cluster:
    """Connections to the brokers of a cluster, opened when they are needed.

    Close it, or use it in a `with` statement.

    Args:
        bootstrap: HOST:PORT, or several with commas; the first broker that responds is used.
        timeout_s: the time limit of one operation, including connecting and retries.
        security: how its connections are secured.

    Raises:
        ValueError: an address is invalid, or there is none.
    """

    def __init__(
        self,
        bootstrap: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        security: Security = PLAINTEXT,
    ) -> None:
        self._security = security
        self.addresses = Address.parse_list(bootstrap, DEFAULT_PORT)
        self.timeout_s = timeout_s
        self._connections: dict[Address, Connection] = {}
        self._coordinators: dict[str, Node] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def any_broker(self, deadline: Deadline) -> Connection:
        """Return a connection to the first bootstrap address that responds.

        Raises:
            BrokerUnreachable: none responds; the cause has the reason for each address.
        """
        reasons: list[str] = []
        for address in self.addresses:
            try:
                return self._connection(address, deadline)
            except BrokerUnreachable as error:
                reasons.append(error.cause)
        raise BrokerUnreachable(
            " ".join(reasons),
            "Start a broker there (`coterie serve`), or name another one with --bootstrap-server"
            " HOST:PORT or COTERIE_BOOTSTRAP.",
        )

    def call_any(self, request: Message, response_type: type[R]) -> R:
        """Send a request to any broker and return its response."""
        deadline = Deadline(self.timeout_s)
        return self.any_broker(deadline).call(request, response_type, deadline)

    def call_node(self, node: Node, request: Message, response_type: type[R]) -> R:
        """Send a request to one broker of the cluster and return its response."""
        deadline = Deadline(self.timeout_s)
        return self._to(node, deadline).call(request, response_type, deadline)

    def call_controller(self, request: Message, response_type: type[R]) -> R:
        """Send a request to the broker that accepts changes of topics, and return its response."""
        return self.controller().call(request, response_type, Deadline(self.timeout_s))

    def metadata(
        self, topics: Iterable[str] | None, deadline: Deadline | None = None
    ) -> MetadataResponse:
        """Return the brokers, the controller and topics [client/coordinator-lookup].

        Args:
            topics: names of topics; None for all topics.
            deadline: by default that of a new operation.
        """
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        deadline = Deadline(self.timeout_s) if deadline is None else deadline
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = self.any_broker(deadline).call(request, MetadataResponse, deadline)
        if response.error_code:
            raise Refused(response.error_code, "Metadata of the cluster")
        return response

    def brokers(self) -> list[Node]:
        """Return all brokers, by node id."""
        return sorted(nodes_of(self.metadata([])).values())

    def controller(self) -> Connection:
        """Return a connection to the broker that accepts changes of topics.

        In a cluster that does not name a controller every broker forwards them
        [client/coordinator-lookup].
        """
        deadline = Deadline(self.timeout_s)
        response = self.metadata([], deadline)
        node = nodes_of(response).get(response.controller_id)
        return self.any_broker(deadline) if node is None else self._to(node, deadline)

    def coordinators(self, group_ids: Iterable[str]) -> dict[str, Node]:
        """Return the coordinator of each group, after waiting for groups that have none yet."""
        return self._call_each(
            list(group_ids),
            self._find_coordinators,
            RETRIABLE_COORDINATOR_ERRORS,
            lambda node, keys, _: dict.fromkeys(keys, (0, node)),
        )

    def call_coordinators(
        self,
        group_ids: Iterable[str],
        request_for: Callable[[list[str]], Message],
        response_type: type[R],
        results_of: Callable[[R], Mapping[str, tuple[int, V]]],
        highest: int = 32767,
        refused: dict[str, int] | None = None,
    ) -> dict[str, V]:
        """Send a request to each coordinator, with all of its groups, and return the results.

        Args:
            group_ids: the groups.
            request_for: makes the request for the groups of one coordinator.
            response_type: the class of the response.
            results_of: takes a response apart into error code and result of each group.
            highest: the last version that the caller supports.
            refused: if given, groups whose coordinator may not be asked for are added here with
                their error code instead of raising.

        Returns:
            The result of each group; results with errors that are not retriable are included.
        """

        def call(node: Node, keys: list[str], deadline: Deadline) -> Mapping[str, tuple[int, V]]:
            response = self._to(node, deadline).call(
                request_for(keys), response_type, deadline, highest
            )
            return results_of(response)

        return self._call_each(
            list(group_ids),
            self._find_coordinators,
            RETRIABLE_COORDINATOR_ERRORS,
            call,
            refused=refused,
        )

    def call_leaders(
        self,
        partitions: Iterable[TopicPartition],
        request_for: Callable[[list[TopicPartition]], Message],
        response_type: type[R],
        results_of: Callable[[R], Mapping[TopicPartition, tuple[int, V]]],
        missing: dict[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, V]:
        """Send a request to each leader, with all of its partitions, and return the results.

        Args:
            partitions, request_for, response_type, results_of: as for `call_coordinators`.
            missing: if given, partitions that do not exist or have no leader after a few retries
                are added here with their error code instead of raising.

        Raises:
            Refused: a topic or partition does not exist.
        """

        def call(
            node: Node, keys: list[TopicPartition], deadline: Deadline
        ) -> Mapping[TopicPartition, tuple[int, V]]:
            response = self._to(node, deadline).call(request_for(keys), response_type, deadline)
            return results_of(response)

        return self._call_each(
            list(partitions), self._find_leaders, RETRIABLE_LEADER_ERRORS, call, missing
        )

    def _call_each(
        self,
        keys: list[K],
        find: Callable[[list[K], Deadline], dict[K, Responsible]],
        retriable: frozenset[ErrorCode],
        call: Callable[[Node, list[K], Deadline], Mapping[K, tuple[int, V]]],
        missing: dict[K, int] | None = None,
        refused: dict[K, int] | None = None,
    ) -> dict[K, V]:
        """Repeat rounds of `find` and `call` until each key has a result."""
        deadline = Deadline(self.timeout_s)
        results: dict[K, V] = {}
        pending = list(dict.fromkeys(keys))
        for pause_s in _pauses():
            errors = self._round(pending, find, retriable, call, deadline, results)
            may_retry = missing is None or pause_s < _LAST_PAUSE_FOR_MISSING_S
            pending = []
            for key, error in errors.items():
                if refused is not None and error in AUTHORIZATION_ERRORS:
                    refused[key] = error
                elif error in retriable and may_retry and deadline.left_s() > pause_s:
                    pending.append(key)
                    self._coordinators.pop(str(key), None)
                elif missing is not None:
                    missing[key] = error
                else:
                    raise Refused(error, _name(key))
            if not pending:
                break
            time.sleep(pause_s)
        return results

    def _round(
        self,
        keys: list[K],
        find: Callable[[list[K], Deadline], dict[K, Responsible]],
        retriable: frozenset[ErrorCode],
        call: Callable[[Node, list[K], Deadline], Mapping[K, tuple[int, V]]],
        deadline: Deadline,
        results: dict[K, V],
    ) -> dict[K, int]:
        """Call once for each key; add to `results` and return the errors of the other keys."""
        errors: dict[K, int] = {}
        by_node: dict[Node, list[K]] = {}
        for key, responsible in find(keys, deadline).items():
            if responsible.node is None:
                errors[key] = responsible.error
            else:
                by_node.setdefault(responsible.node, []).append(key)
        for node, node_keys in by_node.items():
            found = call(node, node_keys, deadline)
            for key in node_keys:
                if key not in found:
                    raise ClientError(
                        f"The response of the broker at {node.address} lacks {_name(key)}."
                    )
                error, result = found[key]
                if error in retriable:
                    errors[key] = error
                else:
                    results[key] = result
        return errors

    def _find_coordinators(
        self, group_ids: list[str], deadline: Deadline
    ) -> dict[str, Responsible]:
        """Return the coordinator of each group, cached or looked up [client/coordinator-lookup]."""
        found = {
            group: Responsible(node)
            for group in group_ids
            if (node := self._coordinators.get(group))
        }
        unknown = [group for group in group_ids if group not in found]
        if not unknown:
            return found
        connection = self.any_broker(deadline)
        has_lists = connection.version_for(FindCoordinatorRequest) >= 4
        for keys in [unknown] if has_lists else [[group] for group in unknown]:
            request = FindCoordinatorRequest(key=keys[0], coordinator_keys=keys)
            response = connection.call(request, FindCoordinatorResponse, deadline)
            for each in response.coordinators:
                found[each.key] = coordinator_of(
                    each.error_code, each.node_id, each.host, each.port
                )
            if not has_lists:
                found[keys[0]] = coordinator_of(
                    response.error_code, response.node_id, response.host, response.port
                )
        self._coordinators.update({key: each.node for key, each in found.items() if each.node})
        return found

    def _find_leaders(
        self, partitions: list[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, Responsible]:
        response = self.metadata(dict.fromkeys(topic for topic, _ in partitions), deadline)
        nodes = nodes_of(response)
        topics = {topic.name: topic for topic in response.topics}
        return {
            (topic, index): leader_of(topics.get(topic), index, nodes)
            for topic, index in partitions
        }

    def _to(self, node: Node, deadline: Deadline) -> Connection:
        try:
            return self._connection(node.address, deadline)
        except BrokerUnreachable as error:
            raise BrokerUnreachable(
                f"{error.cause} This is the address that broker {node.node_id} advertises.",
                "Make it reachable from here, or correct the broker's advertised.listeners.",
            ) from error

    def _connection(self, address: Address, deadline: Deadline) -> Connection:
        connection = self._connections.get(address)
        if connection is None or connection.broken:
            connection = self._connections[address] = Connection.open(
                address, deadline, self._security
            )
        return connection


def _pauses() -> Iterator[float]:
    """Return the seconds to wait after each round, endlessly."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _name(key: str | TopicPartition) -> str:
    """Return a key as part of an error message."""
    return f"Group '{key}'" if isinstance(key, str) else f"Partition {key[0]}-{key[1]}"
