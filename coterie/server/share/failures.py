"""The fact about deliveries that have failed, from the records that a share partition lets go."""

from collections.abc import Sequence
from itertools import groupby

from coterie.coordinator.share_partition.partition import MemberRecords
from coterie.coordinator.share_partition.states import ARCHIVED, join_neighbours
from coterie.protocol.messages.share_facts import DeliveriesFailed, FailedDelivery
from coterie.server.logs.partition import Partition

# A fact has so many deliveries at most. Each record of a batch may have a state of its own, and a
# journal is for people: more in one moment say nothing more.
_MOST_DELIVERIES = 100


def deliveries_failed(
    partition: Partition, cause: str, failed: Sequence[MemberRecords], now_ms: int
) -> DeliveriesFailed:
    """Return the fact; neighbours that a member had are one delivery in it.

    Args:
        partition: the partition of the topic.
        cause: why they failed, see `DeliveriesFailed`.
        failed: the records, and who had them.
        now_ms: the time.
    """
    ordered = sorted(failed)
    deliveries = [
        FailedDelivery(
            member_id=member_id,
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_count=batch.delivery_count,
            given_up=batch.state is ARCHIVED,
        )
        for member_id, some in groupby(ordered, lambda each: each[0])
        for batch in join_neighbours([each[1] for each in some])
    ]
    return DeliveriesFailed(
        at_ms=now_ms,
        topic=partition.topic.name,
        partition=partition.index,
        cause=cause,
        deliveries=deliveries[:_MOST_DELIVERIES],
    )
