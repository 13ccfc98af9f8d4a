"""A cluster seen from its bootstrap addresses: which broker to ask, and when to ask again.

A coordinator that is loading or moving, and a partition between two leaders, are ordinary states of
a healthy cluster: requests to them are repeated until the time allowed is over, and only then
become an error. Everything else a broker answers is handed to the caller at the first time.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self, TypeVar

from coterie.address import Address
from coterie.client.connection import Connection, Deadline
from coterie.client.errors import BrokerUnreachable, ClientError, Refused
from coterie.client.nodes import Found, Node, found_coordinator, found_leader, nodes_of
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

# Pauses between two looks at a cluster that is changing: short first, since most changes take
# milliseconds.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
# Who asks for what is there does not wait long for what is not: three rounds, 350 ms.
_PATIENCE_WITH_MISSING_S = 0.3

COORDINATOR_MOVES = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
LEADER_MOVES = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class Cluster:
    """Connections to the brokers of one cluster, opened when needed; close it, or use it in `with`.

    Args:
        bootstrap: HOST:PORT, or several with commas; the first that answers is used.
        timeout_s: how long one operation may take, connecting and repeating included.
    """

    def __init__(self, bootstrap: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self.addresses = [
            Address.parse(part, DEFAULT_PORT) for part in bootstrap.split(",") if part.strip()
        ]
        if not self.addresses:
            raise ValueError("no bootstrap address given")
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
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def any_broker(self, deadline: Deadline) -> Connection:
        """A connection to the first bootstrap address that answers.

        Raises:
            BrokerUnreachable: none does; the text tells why for each.
        """
        reasons: list[str] = []
        for address in self.addresses:
            try:
                return self._connection(address, deadline)
            except BrokerUnreachable as error:
                reasons.append(error.cause)
        raise BrokerUnreachable(
            " ".join(reasons),
            "Start one there (`coterie serve`), or name another with --bootstrap-server HOST:PORT "
            "or COTERIE_BOOTSTRAP.",
        )

    def ask_any(self, request: Message, response_type: type[R], highest: int = 32767) -> R:
        """Ask whichever broker answers."""
        deadline = Deadline(self.timeout_s)
        return self.any_broker(deadline).call(request, response_type, deadline, highest)

    def ask_node(
        self, node: Node, request: Message, response_type: type[R], highest: int = 32767
    ) -> R:
        """Ask one broker of the cluster."""
        deadline = Deadline(self.timeout_s)
        return self._to(node, deadline).call(request, response_type, deadline, highest)

    def metadata(
        self, topics: Iterable[str] | None, deadline: Deadline | None = None
    ) -> MetadataResponse:
        """Brokers, controller and the named topics, never creating one; None for all topics."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        deadline = deadline or Deadline(self.timeout_s)
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer = self.any_broker(deadline).call(request, MetadataResponse, deadline)
        if answer.error_code:
            raise Refused(answer.error_code, "Metadata of the cluster")
        return answer

    def brokers(self) -> list[Node]:
        """All brokers, by node id."""
        return sorted(nodes_of(self.metadata([])).values())

    def controller(self) -> Connection:
        """The broker to send changes of topics to.

        A cluster that names no controller passes such requests on itself (KIP-590).
        """
        deadline = Deadline(self.timeout_s)
        answer = self.metadata([], deadline)
        node = nodes_of(answer).get(answer.controller_id)
        return self.any_broker(deadline) if node is None else self._to(node, deadline)

    def coordinators(self, group_ids: Iterable[str]) -> dict[str, Node]:
        """The coordinator of every group; waits for those that have none yet."""
        return self._ask(
            list(group_ids),
            self._find_coordinators,
            COORDINATOR_MOVES,
            lambda node, some, _: dict.fromkeys(some, (0, node)),
        )

    def ask_coordinators(
        self,
        group_ids: Iterable[str],
        request_for: Callable[[list[str]], Message],
        response_type: type[R],
        results_of: Callable[[R], Mapping[str, tuple[int, V]]],
        highest: int = 32767,
    ) -> dict[str, V]:
        """Ask each group's coordinator, all groups of one coordinator in one request.

        Args:
            group_ids: the groups.
            request_for: makes the request for the groups of one coordinator.
            response_type: what answers it.
            results_of: takes an answer apart: error code and result of each group.
            highest: the last version to speak.

        Returns:
            Group id to result; results with an error that is not a moving coordinator's are among
            them.
        """

        def ask(node: Node, some: list[str], deadline: Deadline) -> Mapping[str, tuple[int, V]]:
            answer = self._to(node, deadline).call(
                request_for(some), response_type, deadline, highest
            )
            return results_of(answer)

        return self._ask(list(group_ids), self._find_coordinators, COORDINATOR_MOVES, ask)

    def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        request_for: Callable[[list[TopicPartition]], Message],
        response_type: type[R],
        results_of: Callable[[R], Mapping[TopicPartition, tuple[int, V]]],
        missing: dict[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, V]:
        """Ask each partition's leader, as `ask_coordinators` does for groups.

        Args:
            partitions, request_for, response_type, results_of: as there.
            missing: when given, partitions that do not exist or stay without a leader for a few
                rounds are put here with their error code, instead of raising.

        Raises:
            Refused: a topic or partition does not exist.
        """

        def ask(
            node: Node, some: list[TopicPartition], deadline: Deadline
        ) -> Mapping[TopicPartition, tuple[int, V]]:
            answer = self._to(node, deadline).call(request_for(some), response_type, deadline)
            return results_of(answer)

        return self._ask(list(partitions), self._find_leaders, LEADER_MOVES, ask, missing)

    def _ask(
        self,
        keys: list[K],
        find: Callable[[list[K], Deadline], dict[K, Found]],
        moving: frozenset[ErrorCode],
        ask: Callable[[Node, list[K], Deadline], Mapping[K, tuple[int, V]]],
        missing: dict[K, int] | None = None,
    ) -> dict[K, V]:
        """Find and ask, round after round, until every key has an answer that is not `moving`."""
        deadline = Deadline(self.timeout_s)
        results: dict[K, V] = {}
        pending = list(dict.fromkeys(keys))
        for pause_s in _pauses():
            errors = self._round(pending, find, moving, ask, deadline, results)
            patient = missing is None or pause_s < _PATIENCE_WITH_MISSING_S
            pending = []
            for key, error in errors.items():
                if error in moving and patient and deadline.left_s() > pause_s:
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
        find: Callable[[list[K], Deadline], dict[K, Found]],
        moving: frozenset[ErrorCode],
        ask: Callable[[Node, list[K], Deadline], Mapping[K, tuple[int, V]]],
        deadline: Deadline,
        results: dict[K, V],
    ) -> dict[K, int]:
        """Ask once for every key; fills `results`, returns the keys still open with the error."""
        errors: dict[K, int] = {}
        by_node: dict[Node, list[K]] = {}
        for key, found in find(keys, deadline).items():
            if found.node is None:
                errors[key] = found.error
            else:
                by_node.setdefault(found.node, []).append(key)
        for node, some in by_node.items():
            answers = ask(node, some, deadline)
            for key in some:
                if key not in answers:
                    raise ClientError(
                        f"The broker at {node.address} left something out: {_name(key)}."
                    )
                error, result = answers[key]
                if error in moving:
                    errors[key] = error
                else:
                    results[key] = result
        return errors

    def _find_coordinators(self, group_ids: list[str], deadline: Deadline) -> dict[str, Found]:
        found = {
            group: Found(node) for group in group_ids if (node := self._coordinators.get(group))
        }
        unknown = [group for group in group_ids if group not in found]
        if not unknown:
            return found
        connection = self.any_broker(deadline)
        many = connection.version_for(FindCoordinatorRequest) >= 4
        for some in [unknown] if many else [[group] for group in unknown]:
            request = FindCoordinatorRequest(key=some[0], coordinator_keys=some)
            answer = connection.call(request, FindCoordinatorResponse, deadline)
            for one in answer.coordinators:
                found[one.key] = found_coordinator(one.error_code, one.node_id, one.host, one.port)
            if not many:
                found[some[0]] = found_coordinator(
                    answer.error_code, answer.node_id, answer.host, answer.port
                )
        self._coordinators.update({key: f.node for key, f in found.items() if f.node})
        return found

    def _find_leaders(
        self, partitions: list[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, Found]:
        answer = self.metadata(dict.fromkeys(topic for topic, _ in partitions), deadline)
        nodes = nodes_of(answer)
        topics = {topic.name: topic for topic in answer.topics}
        return {
            (topic, index): found_leader(topics.get(topic), index, nodes)
            for topic, index in partitions
        }

    def _to(self, node: Node, deadline: Deadline) -> Connection:
        try:
            return self._connection(node.address, deadline)
        except BrokerUnreachable as error:
            raise BrokerUnreachable(
                f"{error.cause} That is the address broker {node.node_id} advertises.",
                "Make it reachable from here, or correct the broker's advertised.listeners.",
            ) from error

    def _connection(self, address: Address, deadline: Deadline) -> Connection:
        connection = self._connections.get(address)
        if connection is None or connection.broken:
            connection = self._connections[address] = Connection.open(address, deadline)
        return connection


def _pauses() -> Iterator[float]:
    """Seconds to wait after each round, without end."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _name(key: str | TopicPartition) -> str:
    """A key as the start of an error's sentence."""
    return f"Group '{key}'" if isinstance(key, str) else f"Partition {key[0]}-{key[1]}"
