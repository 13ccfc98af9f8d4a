"""Acknowledge records of a share partition [share-partitions/acknowledgement].

All batches of one request about one partition are applied, or none: the first one that is refused
undoes those before it. A renewal is not undone: it changes no state.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coterie.coordinator.share_partition.in_flight import (
    NO_MEMBER,
    InFlightBatch,
    InFlightState,
    Transition,
)
from coterie.coordinator.share_partition.partition import SharePartition
from coterie.coordinator.share_partition.states import (
    ACQUIRED,
    AVAILABLE,
    STATE_AFTER,
    AcknowledgeType,
    StateBatch,
)
from coterie.protocol.errors import ErrorCode

_INVALID_STATE = ErrorCode.INVALID_RECORD_STATE
_INVALID_REQUEST = ErrorCode.INVALID_REQUEST


class AcknowledgedBatch(NamedTuple):
    """What a member says about a range of records.

    Attributes:
        first_offset, last_offset: the records.
        types: one for all, or one for each record.
    """

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Refusal(NamedTuple):
    """Why acknowledgements of a partition are refused.

    Attributes:
        error, message: for the member; without a message it is None.
    """

    error: ErrorCode
    message: str | None = None


_NOT_FOUND = Refusal(
    _INVALID_STATE,
    "Batch record not found. The request batch offsets are not found in the cache.",
)
_FIRST_PAST = Refusal(
    _INVALID_REQUEST,
    "Batch record not found. The first offset in request is past acquired records.",
)
_LAST_PAST = Refusal(
    _INVALID_REQUEST,
    "Batch record not found. The last offset in request is past acquired records.",
)
_BATCH_NOT_ACQUIRED = Refusal(
    _INVALID_STATE, "The batch cannot be acknowledged. The batch is not in the acquired state."
)
_OFFSET_NOT_ACQUIRED = Refusal(
    _INVALID_STATE, "The offset cannot be acknowledged. The offset is not acquired."
)
_NOT_OWNER_OF_BATCH = Refusal(_INVALID_STATE, "Member is not the owner of batch record")
_NOT_OWNER_OF_OFFSET = Refusal(_INVALID_STATE, "Member is not the owner of offset")
_RENEWAL_DISABLED = Refusal(
    _INVALID_STATE, "Renewing acquisition locks is not enabled for the group."
)


def shape_error(batches: Sequence[AcknowledgedBatch], *, may_renew: bool) -> ErrorCode:
    """Return INVALID_REQUEST for acknowledgements that make no sense, whatever is in flight.

    Args:
        batches: the acknowledgements of one partition in one request.
        may_renew: whether the request is one that may renew locks.

    Source: [share-partitions/acknowledgement].
    """
    largest = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
    last_offset = -1
    for batch in batches:
        if batch.first_offset > batch.last_offset or batch.first_offset < last_offset:
            return _INVALID_REQUEST
        types = batch.types
        if not types:
            return _INVALID_REQUEST
        if len(types) > 1 and len(types) != batch.last_offset - batch.first_offset + 1:
            return _INVALID_REQUEST
        if not all(0 <= each <= largest for each in types):
            return _INVALID_REQUEST
        last_offset = batch.last_offset
    return ErrorCode.NONE


def acknowledge(
    partition: SharePartition,
    member_id: str,
    batches: Sequence[AcknowledgedBatch],
    delivery_limit: int,
    lock_deadline_ms: int | None,
) -> Transition | Refusal:
    """Apply what a member says about records.

    Args:
        partition: the share partition.
        member_id: the member.
        batches: acknowledgements without a `shape_error`.
        delivery_limit: how often a record is delivered at most.
        lock_deadline_ms: when renewed locks expire; None if the group does not allow renewals.

    Returns:
        The transition, complete if it has nothing to write; or why nothing was changed.
    """
    transition = Transition(member_id)
    written: list[StateBatch] = []
    for batch in batches:
        if batch.last_offset < partition.start_offset:
            continue
        found = _find(partition, batch)
        acknowledging = _Acknowledging(
            partition, transition, batch, delivery_limit, lock_deadline_ms, written
        )
        refusal = found if isinstance(found, Refusal) else acknowledging.apply(found)
        if refusal is not None:
            partition.undo(transition, delivery_limit)
            return refusal
    transition.write = partition.to_write(written)
    return transition


def _find(partition: SharePartition, batch: AcknowledgedBatch) -> list[InFlightBatch] | Refusal:
    """Return the batches in flight that an acknowledgement may be about."""
    batches = partition.batches
    floor = batches.at_or_before(batch.first_offset)
    if floor is None and batch.first_offset < partition.start_offset:
        floor = batches.at_or_before(partition.start_offset)
    if floor is None:
        return _NOT_FOUND
    found = batches.within(floor.first_offset, batch.last_offset)
    if found[-1].last_offset < batch.first_offset:
        return _FIRST_PAST
    if found[-1].last_offset < batch.last_offset:
        return _LAST_PAST
    return batches.within(batch.first_offset, batch.last_offset)


class _Acknowledging:
    """One acknowledgement that is being applied.

    Attributes:
        partition, transition, batch, delivery_limit, lock_deadline_ms: see `acknowledge`.
        written: receives what is to be persisted.
    """

    __slots__ = (
        "batch", "delivery_limit", "lock_deadline_ms", "partition", "transition", "written",
    )  # fmt: skip

    def __init__(
        self,
        partition: SharePartition,
        transition: Transition,
        batch: AcknowledgedBatch,
        delivery_limit: int,
        lock_deadline_ms: int | None,
        written: list[StateBatch],
    ) -> None:
        self.partition = partition
        self.transition = transition
        self.batch = batch
        self.delivery_limit = delivery_limit
        self.lock_deadline_ms = lock_deadline_ms
        self.written = written

    def apply(self, found: list[InFlightBatch]) -> Refusal | None:
        """Apply it to batches in flight; return why it is refused."""
        start_offset, asked = self.partition.start_offset, self.batch
        for batch in found:
            if batch.last_offset < start_offset:
                continue
            whole = None if batch.is_split else batch.states[0]
            if whole is not None and whole.member_id != self.transition.member_id:
                is_free = whole.member_id == NO_MEMBER
                return _BATCH_NOT_ACQUIRED if is_free else _NOT_OWNER_OF_BATCH
            if (
                whole is not None
                and len(asked.types) == 1
                and max(asked.first_offset, start_offset) <= batch.first_offset
                and batch.last_offset <= asked.last_offset
            ):
                refusal = self._decide(whole, AcknowledgeType(asked.types[0]))
                if refusal is not None:
                    return refusal
                continue
            refusal = self._each_record(batch)
            if refusal is not None:
                return refusal
        return None

    def _each_record(self, batch: InFlightBatch) -> Refusal | None:
        for first_offset, last_offset, kind in self._parts(batch):
            for state in self.partition.split(batch, first_offset, last_offset):
                if state.state is not ACQUIRED:
                    return _OFFSET_NOT_ACQUIRED
                if state.member_id != self.transition.member_id:
                    return _NOT_OWNER_OF_OFFSET
                refusal = self._decide(state, kind)
                if refusal is not None:
                    return refusal
        return None

    def _parts(self, batch: InFlightBatch) -> Iterator[tuple[int, int, AcknowledgeType]]:
        """Yield the records of a batch that are acknowledged, in parts of one type each."""
        asked, types = self.batch, self.batch.types
        begin = max(asked.first_offset, batch.first_offset, self.partition.start_offset)
        last_offset = min(asked.last_offset, batch.last_offset)
        if len(types) > 1:
            kind = types[begin - asked.first_offset]
            for offset in range(begin + 1, last_offset + 1):
                other = types[offset - asked.first_offset]
                if other != kind:
                    yield begin, offset - 1, AcknowledgeType(kind)
                    begin, kind = offset, other
            yield begin, last_offset, AcknowledgeType(kind)
        else:
            yield begin, last_offset, AcknowledgeType(types[0])

    def _decide(self, state: InFlightState, kind: AcknowledgeType) -> Refusal | None:
        """Enter the state that an acknowledgement leads to; return why it is refused."""
        if kind is AcknowledgeType.RENEW:
            if self.lock_deadline_ms is None:
                return _RENEWAL_DISABLED
            self.partition.lock(state, self.lock_deadline_ms)
            return None
        after = STATE_AFTER[kind]
        if after is AVAILABLE:
            self.written.append(self.partition.let_go(self.transition, state, self.delivery_limit))
        else:
            self.written.append(self.partition.enter(self.transition, state, after))
        return None
