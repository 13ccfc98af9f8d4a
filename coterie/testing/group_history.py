"""What the journal of the brokers says of a group: its rebalances, and moves of its coordinator."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.model import Rebalance
from coterie.protocol.messages.journal_records import Fact, UnknownFact, decode_fact
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded, is_move
from coterie.protocol.topic_names import JOURNAL_TOPIC
from coterie.server.broker import Broker
from coterie.testing.members import rebalance_line
from coterie.testing.records import opened_log, partition_records

_PAUSE_S = 0.001
# The key of a fact is its type, the length of the group id, and the group id.
_FACT_TYPE_BYTES = 2


class CoordinatorMove(NamedTuple):
    """A group was coordinated by another of several brokers from then on.

    Attributes:
        at_ms: when the other broker had loaded the group, in epoch milliseconds.
        from_node_id, to_node_id: the brokers.
    """

    at_ms: int
    from_node_id: int
    to_node_id: int

    def __str__(self) -> str:
        return f"coordinator moved from broker {self.from_node_id} to {self.to_node_id}"


class RecordedGroup(NamedTuple):
    """A group, as the journal knows it.

    Attributes:
        rebalances: its rebalances, in order.
        moves: the moves of its coordinator, in order.
    """

    rebalances: list[Rebalance]
    moves: list[CoordinatorMove]

    def lines(self) -> list[str]:
        """Return a line for each rebalance and move, in order."""
        found = [
            (each.started_ms or each.completed_ms or 0, rebalance_line(each))
            for each in self.rebalances
        ]
        found += [(each.at_ms, str(each)) for each in self.moves]
        return [line for _, line in sorted(found, key=lambda each: each[0])]


async def recorded_group(server: Broker, group_id: str) -> RecordedGroup:
    """Return what the journal says of a group until now; in the thread of the brokers."""
    facts, loads = await recorded_facts(server, group_id)
    return RecordedGroup(group_history(group_id, facts, ()).rebalances, _moves(facts, loads))


async def recorded_facts(
    server: Broker, group_id: str
) -> tuple[list[Fact], list[PartitionLoaded | PartitionUnloaded]]:
    """Return the facts about a group, and when its coordinator has loaded it; see above."""
    server.journal.write()
    while not server.journal.idle:  # noqa: ASYNC110 - its topic is created, in a few turns
        await asyncio.sleep(_PAUSE_S)
    topic = server.topics.find(JOURNAL_TOPIC)
    wanted, of_partition = _key_end(group_id), _key_end("")
    index = server.coordinator.partition_for(group_id)
    facts: list[Fact] = []
    loads: list[PartitionLoaded | PartitionUnloaded] = []
    for partition in [] if topic is None else topic.partitions:
        for record in partition_records(await opened_log(server, partition)):
            end = None if record.key is None else record.key[_FACT_TYPE_BYTES:]
            if record.key is None or end not in (wanted, of_partition):
                continue
            fact = decode_fact(record.key, record.value).fact
            if isinstance(fact, PartitionLoaded | PartitionUnloaded):
                if fact.partition == index:
                    loads.append(fact)
            elif not isinstance(fact, UnknownFact):
                facts.append(fact)
    return facts, loads


def _moves(facts: Sequence[Fact], loads: Sequence[Fact]) -> list[CoordinatorMove]:
    """Return the moves since the first fact about a group."""
    moves: list[CoordinatorMove] = []
    if not facts:
        return moves
    before = facts[0].node_id
    later = [each for each in loads if each.at_ms >= facts[0].at_ms]
    for fact in sorted([*facts, *later], key=lambda each: each.at_ms):
        if isinstance(fact, PartitionLoaded) and is_move(before, fact):
            moves.append(CoordinatorMove(fact.at_ms, before, fact.node_id))
        before = fact.node_id
    return moves


def _key_end(group_id: str) -> bytes:
    encoded = group_id.encode()
    return len(encoded).to_bytes(2, "big") + encoded
