"""A page of the records of a topic, of one partition or of all, and the cursor of the next one.

Records of several partitions are merged by their times; within a partition they stay in the order
of their offsets, whatever their times are. A cursor has the offset at which each partition that has
more is continued. It needs nothing of the server, so it can be used again at any time.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from coterie.client.cluster import Cluster
from coterie.client.offsets import EARLIEST, LATEST, partition_offsets
from coterie.client.registry.decoding import Registry
from coterie.client.topics import describe_topics
from coterie.console.records.reading import (
    Backward,
    Bounds,
    Budget,
    Forward,
    Partition,
    Read,
    Row,
    Show,
)
from coterie.console.records.shown import record_row
from coterie.protocol.errors import ErrorCode
from coterie.server.network.http_errors import Refused

DEFAULT_ROWS, MOST_ROWS = 50, 500
# Each partition costs a request or more; a page of more than this takes seconds.
MOST_PARTITIONS = 200
# So much is read for a page at most; a page that would need more is shorter, and can be continued.
PAGE_BYTES = 64 * 1024 * 1024
# The least number of offsets that are read of a partition of many.
_LEAST_STRETCH = 10

_CURSOR = re.compile(r"\d{1,10}-\d{1,19}(\.\d{1,10}-\d{1,19})*", re.ASCII)

Positions = Mapping[int, int]


class Wanted(NamedTuple):
    """Which records are wanted.

    Attributes:
        topic: the topic.
        partition: only this one; None for all.
        newest_first: the order.
        positions: where each partition is continued; None for the beginning in this order.
        at_ms: records from this time on, oldest first, or before it, newest first; None for all.
        only_committed: whether records of aborted and undecided transactions are left out.
        limit: the most records.
    """

    topic: str
    partition: int | None = None
    newest_first: bool = True
    positions: Positions | None = None
    at_ms: int | None = None
    only_committed: bool = False
    limit: int = DEFAULT_ROWS


def cursor_text(positions: Positions) -> str:
    """Return positions as a text."""
    return ".".join(f"{number}-{offset}" for number, offset in sorted(positions.items()))


def parsed_cursor(text: str) -> dict[int, int]:
    """Return the positions in the text of a cursor.

    Raises:
        Refused: it is no cursor.
    """
    if not _CURSOR.fullmatch(text):
        raise Refused("BadRequest", "cursor: it is none that this console has given")
    return {
        int(number): int(offset)
        for number, _, offset in (each.partition("-") for each in text.split("."))
    }


def bounds_of(
    cluster: Cluster, topic: str, partition: int | None, most: int | None = None
) -> dict[int, Bounds]:
    """Return where the partitions of a topic begin and end; those without a leader are left out.

    Args:
        cluster: the cluster.
        topic: the topic.
        partition: only this one; None for all.
        most: how many partitions there may be; None for any number.

    Raises:
        Refused: there is no such topic or partition, or there are too many partitions.
    """
    numbers = partitions_of(cluster, topic, partition)
    if most is not None and len(numbers) > most:
        text = f"'{topic}' has {len(numbers)} partitions, and {most} at most are read"
        raise Refused("BadRequest", f"{text} together: choose one")
    missing: dict[tuple[str, int], int] = {}
    first = partition_offsets(cluster, {(topic, each): EARLIEST for each in numbers}, missing)
    end_at = dict.fromkeys(first, LATEST)
    ends = partition_offsets(cluster, end_at, missing)
    stable = partition_offsets(cluster, end_at, missing, only_committed=True)
    return {
        key[1]: Bounds(first[key], min(stable[key], ends[key]), ends[key])
        for key in sorted(first)
        if key in ends and key in stable
    }


def partitions_of(cluster: Cluster, topic: str, partition: int | None) -> list[int]:
    """Return the numbers of the partitions of a topic, or only the one that is wanted.

    Raises:
        Refused: there is no such topic or partition.
    """
    (described,) = describe_topics(cluster, [topic])
    if described.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise Refused("NotFound", f"there is no topic '{topic}'")
    numbers = [each.partition_index for each in described.partitions]
    if partition is None:
        return numbers
    if partition not in numbers:
        raise Refused("NotFound", f"'{topic}' has no partition {partition}")
    return [partition]


def records_page(cluster: Cluster, wanted: Wanted, registry: Registry | None = None) -> Row:
    """Return a page.

    Args:
        cluster: the cluster.
        wanted: the records.
        registry: that of their schemas; None for none.

    Returns:
        topic, order, records, cursor (of the next page; null at the end), newer (a cursor for what
        is written from now on, oldest first), and partitions with their offsets.
    """
    bounds = bounds_of(cluster, wanted.topic, wanted.partition, MOST_PARTITIONS)
    budget = Budget(PAGE_BYTES)
    begins = _begins(cluster, wanted, bounds)

    def show(read: Read) -> Row:
        return record_row(wanted.topic, read, registry=registry)

    sides: dict[int, Forward | Backward] = {}
    for index, begin in begins.items():
        partition = Partition(
            cluster,
            (wanted.topic, index),
            bounds[index],
            budget,
            only_committed=wanted.only_committed,
            shares=len(begins),
        )
        sides[index] = _side(partition, wanted, begin, len(begins), show)
    rows: list[Row] = []
    while len(rows) < wanted.limit and (number := _next(sides, wanted)) is not None:
        rows.append(sides[number].take())
    left = {number: side.position for number, side in sides.items() if not side.is_complete}
    ends = {
        number: each.stable if wanted.only_committed else each.end
        for number, each in bounds.items()
    }
    return {
        "topic": wanted.topic,
        "order": "newest" if wanted.newest_first else "oldest",
        "records": rows,
        "cursor": cursor_text(left) if left else None,
        "newer": cursor_text(ends) if ends else None,
        "partitions": [
            {
                "partition": number,
                "start_offset": each.start,
                "end_offset": each.end,
                "last_stable_offset": each.stable,
            }
            for number, each in bounds.items()
        ],
    }


def _begins(cluster: Cluster, wanted: Wanted, bounds: Mapping[int, Bounds]) -> dict[int, int]:
    """Return where each partition begins; those that have nothing more are left out."""
    if wanted.positions is not None:
        return {number: at for number, at in wanted.positions.items() if number in bounds}
    if wanted.at_ms is None:
        return {
            number: each.end if wanted.newest_first else each.start
            for number, each in bounds.items()
        }
    times = {(wanted.topic, number): wanted.at_ms for number in bounds}
    found = partition_offsets(cluster, times)
    # No record is that recent: the end.
    return {
        number: at if (at := found[wanted.topic, number]) >= 0 else each.end
        for number, each in bounds.items()
    }


def _side(
    partition: Partition, wanted: Wanted, begin: int, shares: int, show: Show
) -> Forward | Backward:
    if not wanted.newest_first:
        return Forward(partition, begin, show)
    return Backward(partition, begin, show, max(_LEAST_STRETCH, wanted.limit // shares))


def _next(sides: Mapping[int, Forward | Backward], wanted: Wanted) -> int | None:
    """Return the partition with the next record; None at the end of the page."""
    best: tuple[int, int] | None = None
    for number, side in sides.items():
        head_ms = side.head_ms()
        if head_ms is None:
            if side.is_complete:
                continue
            # It may have the next record, but the budget does not allow to find it.
            return None
        key = (-head_ms if wanted.newest_first else head_ms, number)
        if best is None or key < best:
            best = key
    return None if best is None else best[1]


def whole_record(
    cluster: Cluster, topic: str, partition: int, offset: int, registry: Registry | None = None
) -> dict[str, Any]:
    """Return one record with all of its bytes.

    Raises:
        Refused: there is no such record.
    """
    bounds = bounds_of(cluster, topic, partition)
    if partition not in bounds:
        raise Refused("NotFound", f"partition {partition} of '{topic}' has no leader now")
    if bounds[partition].start <= offset < bounds[partition].end:
        reader = Partition(
            cluster, (topic, partition), bounds[partition], Budget(0), only_committed=False
        )
        # Of a batch that is larger the broker sends all.
        for read in reader.read(reader.fetch(offset, max_bytes=1), offset + 1):
            return record_row(topic, read, None, registry)
    raise Refused("NotFound", f"there is no record at offset {offset} of {topic}-{partition}")
