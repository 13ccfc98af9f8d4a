"""Administration of transactional ids: list, describe, terminate (KIP-664, KIP-939)."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from coterie.client.cluster import RETRIABLE_COORDINATOR_ERRORS, Cluster
from coterie.client.connection import Deadline
from coterie.client.errors import ClientError, Refused, VersionUnsupported
from coterie.client.nodes import Node, coordinator_of
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransaction,
)
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coterie.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from coterie.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

# The first versions with a least duration and with a pattern.
_DURATION_SINCE = 1
_PATTERN_SINCE = 2

# The key type of transactional ids in FindCoordinator, and the first version with lists of keys.
_TRANSACTIONAL_ID = 1
_LISTS_SINCE = 4
_ONGOING = "Ongoing"
# A transaction that is being ended takes milliseconds, a coordinator that starts some seconds.
_TERMINATION_PAUSE_S = 0.1
_UNFINISHED = RETRIABLE_COORDINATOR_ERRORS | {ErrorCode.CONCURRENT_TRANSACTIONS}


class Filter(NamedTuple):
    """Which transactional ids are listed.

    Attributes:
        states: names of states; empty for all.
        producer_ids: producer ids; empty for all.
        duration_ms: how long the transaction is open at least; -1 for any.
        pattern: a regular expression for the whole id; None for any.
    """

    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    duration_ms: int = -1
    pattern: str | None = None


class ListedTransaction(NamedTuple):
    """A transactional id and the broker that coordinates it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    """The state of a transactional id, and the broker that coordinates it."""

    coordinator_id: int
    state: DescribeTransactionsResponseTransaction


class Terminated(NamedTuple):
    """A producer that was fenced.

    Attributes:
        producer_id, producer_epoch: those of the id from now on.
        was_open: whether a transaction was open; None if the broker does not say.
    """

    producer_id: int
    producer_epoch: int
    was_open: bool | None


def list_transactions(cluster: Cluster, wanted: Filter) -> list[ListedTransaction]:
    """Return the transactional ids of all brokers.

    Raises:
        ClientError: a state does not exist, or a broker cannot filter like this.
    """
    least = _PATTERN_SINCE if wanted.pattern else _DURATION_SINCE if wanted.duration_ms >= 0 else 0
    version = cluster.any_broker(Deadline(cluster.timeout_s)).version_for(ListTransactionsRequest)
    if version < least:
        raise VersionUnsupported(f"The broker has ListTransactions {version}, not {least}.")
    request = ListTransactionsRequest(
        state_filters=list(wanted.states),
        producer_id_filters=list(wanted.producer_ids),
        duration_filter=wanted.duration_ms,
        transactional_id_pattern=wanted.pattern,
    )
    found = []
    for node in cluster.brokers():
        response = cluster.call_node(node, request, ListTransactionsResponse)
        if response.error_code:
            raise Refused(response.error_code, f"Transactions of broker {node.node_id}")
        if response.unknown_state_filters:
            names = ", ".join(response.unknown_state_filters)
            raise ClientError(
                f"No state of a transaction has the name {names}.",
                "States are Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit and"
                " CompleteAbort.",
            )
        found += [
            ListedTransaction(
                each.transactional_id, node.node_id, each.producer_id, each.transaction_state
            )
            for each in response.transaction_states
        ]
    return sorted(found)


def describe_transactions(
    cluster: Cluster, transactional_ids: Sequence[str]
) -> dict[str, DescribedTransaction]:
    """Return the states of ids; each broker answers for those that it coordinates.

    Raises:
        Refused: an id is not known, or its coordinator is not available.
    """
    request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    found: dict[str, DescribedTransaction] = {}
    errors: dict[str, int] = {}
    for node in cluster.brokers():
        response = cluster.call_node(node, request, DescribeTransactionsResponse)
        for each in response.transaction_states:
            if not each.error_code:
                found[each.transactional_id] = DescribedTransaction(node.node_id, each)
            elif each.error_code != ErrorCode.NOT_COORDINATOR:
                errors[each.transactional_id] = each.error_code
    for name in transactional_ids:
        if name not in found:
            # A cluster in which no transaction ever began has no coordinator.
            error = errors.get(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
            raise Refused(error, f"Transactional id '{name}'")
    return found


def terminate_transaction(cluster: Cluster, transactional_id: str) -> Terminated:
    """Abort the open transaction of an id, and fence its producer [client/terminated-producers].

    Raises:
        Refused: the id is not known, or its coordinator refuses or does not finish in time.
    """
    deadline = Deadline(cluster.timeout_s)
    try:
        known = describe_transactions(cluster, [transactional_id])[transactional_id].state
    except VersionUnsupported:
        # Kafka 2 can do it, but does not describe.
        was_open, timeout_ms = None, int(cluster.timeout_s * 1000)
    else:
        was_open, timeout_ms = known.transaction_state == _ONGOING, known.transaction_timeout_ms
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )
    while True:
        node, error = _coordinator(cluster, transactional_id)
        if node is not None:
            response = cluster.call_node(node, request, InitProducerIdResponse)
            error = response.error_code
            if not error:
                return Terminated(response.producer_id, response.producer_epoch, was_open)
        if error not in _UNFINISHED or deadline.left_s() < _TERMINATION_PAUSE_S:
            raise Refused(error, f"Transactional id '{transactional_id}'")
        time.sleep(_TERMINATION_PAUSE_S)


def _coordinator(cluster: Cluster, transactional_id: str) -> tuple[Node | None, int]:
    """Return the coordinator of a transactional id, or None and an error code."""
    version = cluster.any_broker(Deadline(cluster.timeout_s)).version_for(FindCoordinatorRequest)
    request = FindCoordinatorRequest(
        key=transactional_id, key_type=_TRANSACTIONAL_ID, coordinator_keys=[transactional_id]
    )
    response = cluster.call_any(request, FindCoordinatorResponse)
    found = response.coordinators[0] if version >= _LISTS_SINCE else response
    return coordinator_of(found.error_code, found.node_id, found.host, found.port)
