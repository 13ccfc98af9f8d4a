"""Merge the states of records that were written one after another [share-partitions/state-log].

Where two states overlap, the one with more deliveries counts, then the one with the larger number:
a final state wins over AVAILABLE. What is below the start offset is dropped.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from coterie.coordinator.share_partition.states import StateBatch, join_neighbours


def merge(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Return states without overlaps, in the order of offsets, neighbours that are equal joined.

    Args:
        batches: the states in any order.
        start_offset: what is below it is dropped.
    """
    waiting = [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if batch.last_offset >= start_offset
    ]
    # Nearly always nothing overlaps: a record is acknowledged once.
    waiting.sort()
    behind = -1
    for batch in waiting:
        if batch.first_offset <= behind:
            break
        behind = batch.last_offset
    else:
        return join_neighbours(waiting)
    heapify(waiting)
    apart: list[StateBatch] = []
    while waiting:
        batch = heappop(waiting)
        last = apart[-1] if apart else None
        if last is None or last.last_offset < batch.first_offset:
            apart.append(batch)
            continue
        # They overlap, and `last` begins first or equally early.
        apart.pop()
        wins = (batch.delivery_count, batch.state) > (last.delivery_count, last.state)
        winner, loser = (batch, last) if wins else (last, batch)
        if loser.first_offset < winner.first_offset:
            apart.append(loser._replace(last_offset=winner.first_offset - 1))
        if loser.last_offset > winner.last_offset:
            heappush(waiting, loser._replace(first_offset=winner.last_offset + 1))
        heappush(waiting, winner)
    return join_neighbours(apart)
