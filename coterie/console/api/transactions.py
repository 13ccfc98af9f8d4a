"""Transactions: what is open, since when, and what it holds up; the producers of a partition."""

from typing import Any

from coterie.client import times
from coterie.client.cluster import Cluster
from coterie.client.errors import VersionUnsupported
from coterie.client.offsets import LATEST, partition_offsets
from coterie.client.producers import describe_producers
from coterie.client.transaction_rows import Row, producer_row, transaction_row
from coterie.client.transactions import Filter, describe_transactions, list_transactions
from coterie.console.api.parameters import number_of, whole_number
from coterie.console.records.page import partitions_of
from coterie.console.routes import Request, Route
from coterie.coordinator.transactions.states import CLOSED_STATES

_PARTITION = whole_number("partition", "Only this partition.", (1 << 31) - 1)
_CLOSED = {each.kafka_name for each in CLOSED_STATES}
# Kafka describes as many in one request; a cluster with more ids shows those that are open.
_MOST_DESCRIBED = 2000


def _transactions(request: Request) -> dict[str, Any]:
    with request.place.cluster() as cluster:
        return transactions(cluster, times.now_ms())


def transactions(cluster: Cluster, now_ms: int) -> dict[str, Any]:
    """Return the transactional ids: those with an open transaction first, the oldest on top.

    Args:
        cluster: the cluster.
        now_ms: epoch milliseconds.

    Returns:
        at_ms; transactions, with the keys of `transactions describe` and `holds_up`: for each
        partition of an open transaction topic, partition, last_stable_offset, end_offset and the
        records between them; and closed_left_out: how many ids are not described.
    """
    listed = list_transactions(cluster, Filter())
    is_open = [each.transactional_id for each in listed if each.state not in _CLOSED]
    closed = [each.transactional_id for each in listed if each.state in _CLOSED]
    wanted = (is_open + closed)[: max(_MOST_DESCRIBED, len(is_open))]
    described = describe_transactions(cluster, wanted) if wanted else {}
    rows = [transaction_row(name, described[name], now_ms) for name in wanted]
    held = _held_up(cluster, rows)
    for row in rows:
        row["holds_up"] = [
            held[topic, number]
            for topic, numbers in row["partitions"].items()
            for number in numbers
            if (topic, number) in held
        ]
    rows.sort(key=_rank)
    return {"at_ms": now_ms, "transactions": rows, "closed_left_out": len(listed) - len(wanted)}


def _rank(row: Row) -> tuple[bool, int, str]:
    return row["state"] in _CLOSED, row["start_ms"] or 0, row["transactional_id"]


def _held_up(cluster: Cluster, rows: list[Row]) -> dict[tuple[str, int], Row]:
    """Return what readers of committed records do not get yet in the partitions of transactions."""
    partitions = [
        (topic, number)
        for row in rows
        if row["state"] not in _CLOSED
        for topic, numbers in row["partitions"].items()
        for number in numbers
    ]
    if not partitions:
        return {}
    missing: dict[tuple[str, int], int] = {}
    latest = dict.fromkeys(partitions, LATEST)
    stable = partition_offsets(cluster, latest, missing, only_committed=True)
    ends = partition_offsets(cluster, latest, missing)
    return {
        key: {
            "topic": key[0],
            "partition": key[1],
            "last_stable_offset": stable[key],
            "end_offset": end,
            "records": max(0, end - stable[key]),
        }
        for key, end in ends.items()
        if key in stable
    }


def _producers(request: Request) -> dict[str, Any]:
    topic = request.path["topic"]
    with request.place.cluster() as cluster:
        numbers = partitions_of(cluster, topic, number_of(request.query, _PARTITION))
        found = describe_producers(cluster, [(topic, each) for each in numbers])
        try:
            names = {each.producer_id: each for each in list_transactions(cluster, Filter())}
        except VersionUnsupported:
            names = {}
    rows = [
        {
            **producer_row(each),
            "transactional_id": names[each.producer_id].transactional_id
            if each.producer_id in names
            else None,
        }
        for each in found
    ]
    return {"topic": topic, "producers": rows}


ROUTES = (
    Route(
        "GET",
        "/api/transactions",
        "The transactional ids: open transactions first, with what they hold up.",
        _transactions,
    ),
    Route(
        "GET",
        "/api/topics/{topic}/producers",
        "The producers that partitions of a topic remember, and their open transactions.",
        _producers,
        (_PARTITION,),
    ),
)
