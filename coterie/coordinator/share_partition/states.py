"""The states of a record in a share partition, and what moves it from one to another.

A record below the start offset is done; one behind the end offset was never acquired. Between them
each record is in flight, in one of four states [share-partitions/record-states]:

    state         event                                        next state
    AVAILABLE     a member acquires it                         ACQUIRED, delivery count + 1
    AVAILABLE     it is gone from the log                      ARCHIVED
    ACQUIRED      its member accepts it                        ACKNOWLEDGED
    ACQUIRED      its member rejects it, or reports a gap      ARCHIVED
    ACQUIRED      its member releases it, or its lock expires  AVAILABLE; ARCHIVED at the limit
    ACQUIRED      its member renews the lock                   ACQUIRED, with a new deadline
    ACQUIRED      it is gone from the log, or was aborted      ARCHIVED
    ACKNOWLEDGED  -                                            final
    ARCHIVED      -                                            final

The start offset moves over final records. ACQUIRED is never persisted: after a load such a record
is as it was before.
"""

from enum import IntEnum
from typing import NamedTuple


class RecordState(IntEnum):
    """The state of a record in flight, with its number in the log. Kafka does not use 3."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


AVAILABLE = RecordState.AVAILABLE
ACQUIRED = RecordState.ACQUIRED
ACKNOWLEDGED = RecordState.ACKNOWLEDGED
ARCHIVED = RecordState.ARCHIVED

FINAL_STATES = (ACKNOWLEDGED, ARCHIVED)


class AcknowledgeType(IntEnum):
    """What a member says about a record, as in ShareFetch and ShareAcknowledge."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


# The state after an acknowledgement. A renewal changes no state.
STATE_AFTER = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}


class StateBatch(NamedTuple):
    """Records in one state, as they are persisted.

    Attributes:
        first_offset, last_offset: the records, both included.
        state: never ACQUIRED.
        delivery_count: how often they were delivered.
    """

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int


def released_state(delivery_count: int, delivery_limit: int) -> RecordState:
    """Return the state of a record whose delivery has ended without a decision."""
    return ARCHIVED if delivery_count >= delivery_limit else AVAILABLE


def join_neighbours(batches: list[StateBatch]) -> list[StateBatch]:
    """Return batches in the order of offsets, those made one that touch and are equal otherwise."""
    joined: list[StateBatch] = []
    for batch in sorted(batches):
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.last_offset + 1 == batch.first_offset
            and last.state is batch.state
            and last.delivery_count == batch.delivery_count
        ):
            joined[-1] = last._replace(last_offset=batch.last_offset)
        else:
            joined.append(batch)
    return joined
