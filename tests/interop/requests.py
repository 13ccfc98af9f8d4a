"""Single requests to a broker: what no client library sends, and what it says of transactions."""

import socket
from typing import Any, NamedTuple

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.frames import decode_response, encode_request
from coterie.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
)
from coterie.protocol.messages.describe_transactions import DescribeTransactionsRequest
from coterie.protocol.messages.end_txn import EndTxnRequest
from coterie.protocol.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from tests.interop.model import Failed

_LIMIT_S = 60.0


class Transaction(NamedTuple):
    """What a broker says of a transactional id."""

    state: str
    producer_id: int
    epoch: int


def ask(bootstrap: str, request: Any, version: int) -> Any:
    """Send one request on a connection of its own; return the response."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=_LIMIT_S) as connection:
        connection.sendall(encode_request(request, version, 1, "interop"))
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4))
            frame = stream.read(size)
    _, answer = decode_response(response_class(ApiKey(type(request).api_key)), frame, version)
    return answer


def latest_offsets(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """Return the end of a partition and its last stable offset."""
    wanted = ListOffsetsRequestPartition(
        partition_index=partition, timestamp=LATEST_TIMESTAMP, current_leader_epoch=-1
    )
    offsets = []
    for isolation in (0, 1):
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsRequestTopic(name=topic, partitions=[wanted])],
        )
        (found,) = ask(bootstrap, request, 7).topics[0].partitions
        offsets.append(int(found.offset))
    return offsets[0], offsets[1]


def producers_of(bootstrap: str, topic: str, partition: int = 0) -> list[tuple[int, ...]]:
    """Return the producers of a partition."""
    named = DescribeProducersRequestTopic(name=topic, partition_indexes=[partition])
    answer = ask(bootstrap, DescribeProducersRequest(topics=[named]), 0)
    return sorted(
        (
            each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp,
            each.coordinator_epoch, each.current_txn_start_offset,
        )
        for each in answer.topics[0].partitions[0].active_producers
    )  # fmt: skip


def transaction_of(bootstrap: str, transactional_id: str) -> Transaction:
    """Return the state of a transactional id, or the number of the error in its place."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (found,) = ask(bootstrap, request, 0).transaction_states
    state = str(found.error_code or found.transaction_state)
    return Transaction(state, found.producer_id, found.producer_epoch)


def end_transaction(
    bootstrap: str, transactional_id: str, *, commit: bool, version: int
) -> Transaction:
    """End a transaction in the place of its producer; return what the broker said of it before.

    Raises:
        Failed: it is refused.
    """
    found = transaction_of(bootstrap, transactional_id)
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        committed=commit,
    )
    error = ask(bootstrap, request, version).error_code
    if error:
        raise Failed(f"EndTxn of {transactional_id}, {found}, is refused with error {error}")
    return found
