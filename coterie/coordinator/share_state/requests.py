"""What is asked of the share coordinator about one share partition, and its answer.

A leader of a partition asks for one share partition at a time; the wire's requests about several
are taken apart by their handlers.
"""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.coordinator.share_partition.states import StateBatch
from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode

# A leader or state epoch that is not compared, and one that is not known.
NO_EPOCH = -1
# A start offset that is not known, or stays as it is.
NO_OFFSET = -1
# A number of completed deliveries that is not known.
NO_COUNT = -1


class ShareKey(NamedTuple):
    """A share partition.

    Attributes:
        group_id: the group.
        topic_id: the topic's id, 16 bytes.
        partition: the partition of the topic.
    """

    group_id: str
    topic_id: bytes
    partition: int


class Initialize(NamedTuple):
    """Begin to keep the state of a share partition, or begin anew.

    Attributes:
        key: the share partition.
        state_epoch: the epoch of its group at this moment.
        start_offset: where it begins; NO_OFFSET to leave that to the leader.
    """

    key: ShareKey
    state_epoch: int
    start_offset: int


class Read(NamedTuple):
    """Read the state as the leader of a partition, whose epoch is kept.

    Attributes:
        key: the share partition.
        leader_epoch: the epoch of the leader; NO_EPOCH is not compared.
    """

    key: ShareKey
    leader_epoch: int


class Write(NamedTuple):
    """Add states of records.

    Attributes:
        key: the share partition.
        state_epoch, leader_epoch: those that the writer knows; NO_EPOCH is not compared.
        start_offset: the start offset; NO_OFFSET keeps the one there is.
        delivery_complete_count: how many records behind it are final.
        batches: the states.
    """

    key: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class Delete(NamedTuple):
    """Forget the state.

    Attributes:
        key: the share partition.
    """

    key: ShareKey


class ReadSummary(NamedTuple):
    """Read the state without the states of records, for administrators.

    Attributes:
        key: the share partition.
        leader_epoch: as in `Read`; it is not kept.
    """

    key: ShareKey
    leader_epoch: int


StateRequest = Initialize | Read | Write | Delete | ReadSummary


class StateResult(NamedTuple):
    """The answer to any of the requests.

    Attributes:
        error, message: why it was refused; the message may be missing.
        state_epoch, leader_epoch: the epochs.
        start_offset: the start offset; NO_OFFSET if it is not known.
        delivery_complete_count: how many records behind it are final; NO_COUNT if not known.
        batches: the states of records, for `Read`.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    delivery_complete_count: int = NO_COUNT
    batches: Sequence[StateBatch] = ()


# What each request was about to do, for texts of errors.
_VERBS = {
    Initialize: "initialize share group state",
    Read: "read share group state",
    Write: "write share group state",
    Delete: "delete share group state",
    ReadSummary: "read share group state summary",
}


def unavailable(request: StateRequest, error: ErrorCode) -> StateResult:
    """Return the answer of a coordinator that cannot serve a request now."""
    reason = DEFAULT_MESSAGES.get(error, error.name)
    return StateResult(error, f"Unable to {_VERBS[type(request)]}: {reason}")
