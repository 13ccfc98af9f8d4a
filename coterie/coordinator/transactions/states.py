"""The states of a transactional id, and which of them may follow each other.

A new id is Empty. The first partition that a producer adds begins a transaction: Ongoing. The
producer's commit or abort writes a Prepare state, which is the decision: from then on the
transaction ends in this way, whatever crashes. Then markers are written into all partitions of the
transaction, and the Complete state when they are durable. The id stays in Complete until the next
transaction begins or a new producer takes it over, which makes it Empty again.

A Complete or Empty id may go to PrepareAbort, too: at level 2 of the protocol a producer that
does not know whether its transaction is open aborts it, to get the next epoch
[transactions/end-newer].

An id that was not used for long becomes Dead: its tombstone is written and the id is forgotten.
Kafka has an eighth state, PrepareEpochFence, between the decision to abort the transaction of an
old producer and the record of it. Here both are one step, so no id is ever found in that state; its
name is known to filters [transactions/states].
"""

from enum import IntEnum

from coterie.protocol.errors import MalformedFrame


class TransactionState(IntEnum):
    """The states, with the numbers that they have in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """The name of the state in Kafka's tools, such as PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))


EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
DEAD = TransactionState.DEAD

# In these no transaction is open.
CLOSED_STATES = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
# In these the transaction is decided, and its markers are being written.
ENDING_STATES = frozenset({PREPARE_COMMIT, PREPARE_ABORT})

# From which states each state may be entered.
PREVIOUS_STATES: dict[TransactionState, frozenset[TransactionState]] = {
    EMPTY: CLOSED_STATES,
    ONGOING: CLOSED_STATES | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: CLOSED_STATES | {ONGOING},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    DEAD: CLOSED_STATES,
}

STATES_BY_NAME = {each.kafka_name: each for each in TransactionState}


def logged_state(number: int) -> TransactionState:
    """Return the state of a record of the log.

    Raises:
        MalformedFrame: the log never contains such a number.
    """
    if not EMPTY <= number <= DEAD:
        raise MalformedFrame(f"{number} is not the state of a transaction")
    return TransactionState(number)
