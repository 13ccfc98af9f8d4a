"""The pairs of a state and an event that occur in the usual number of seeds.

A state is that of a group or transaction that a broker coordinates when the event concerns it. A
request without an answer, an offset of an open transaction and a static member that is being
restarted count as states, too.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest
from coterie.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from coterie.protocol.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.server.broker import Broker

# The events that are counted with states.
EVENTS = ("move", "kill", "undetected kill", "stop", "pause", "detected pause", "restart")
CLASSIC_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "member away")
CONSUMER_STATES = (
    "Empty", "Assigning", "Reconciling", "Stable", "member away",
    "Assigning, mixed", "Reconciling, mixed", "Stable, mixed",
)  # fmt: skip
TRANSACTION_STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
)  # fmt: skip


# The requests that are counted while they have no answer.
IN_FLIGHT = (
    TxnOffsetCommitRequest, DeleteGroupsRequest, OffsetDeleteRequest, DeleteTopicsRequest,
)  # fmt: skip


def required_pairs() -> Iterator[str]:
    """Yield each pair of a state and an event, as it is counted."""
    states: dict[str, Sequence[str]] = {
        "classic": CLASSIC_STATES,
        "consumer": CONSUMER_STATES,
        "transaction": TRANSACTION_STATES,
        "offsets of transactions": ("pending",),
        "request": [each.__name__ for each in IN_FLIGHT],
    }
    for kind, names in states.items():
        for name in names:
            for event in EVENTS:
                yield pair(kind, name, event)


def pair(kind: str, state: str, event: str) -> str:
    """Return the name under which a pair is counted."""
    return f"{kind} {state} x {event}"


class Led(NamedTuple):
    """A partition of a coordinator's topic."""

    topic: str
    partition: int

    @classmethod
    def at(cls, found: tuple[str, int] | None) -> "Led | None":
        """Return the partition that the image has found."""
        return None if found is None else cls(*found)


def states_of(broker: Broker, of: Led | None = None) -> Iterator[tuple[str, str]]:
    """Yield what a broker coordinates: classic, consumer or transaction, and its state.

    Args:
        broker: the broker.
        of: only what this partition has.
    """
    coordinator = broker.groups.coordinator
    for group in coordinator.groups():
        if of in (None, (OFFSETS_TOPIC, coordinator.partition_for(group.group_id))):
            yield group.group_type, group.state_name
            members = group.members.values() if isinstance(group, ConsumerGroup) else ()
            if any(each.classic is not None for each in members):
                yield group.group_type, f"{group.state_name}, mixed"
    for held in coordinator.shards:
        if of in (None, (OFFSETS_TOPIC, held.partition)) and held.logged.pending.transactions:
            yield "offsets of transactions", "pending"
    for shard in broker.transaction_runtime.coordinator.shards:
        if of in (None, (TRANSACTIONS_TOPIC, shard.partition)):
            for each in shard.transactions.values():
                yield "transaction", each.state.kafka_name
