"""Assignments that cost more than they must: moves without need, unequal shares."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow.compute as pc

from coterie.pipeline.findings.finding import INFO, Finding, Rule, cost_of, counted, most_frequent
from coterie.pipeline.findings.group import Group, rows_of
from coterie.pipeline.timeline.model import DOWNGRADE

# A single move without need may be chance if two assignments are equally good.
NEEDLESS_MOVES = 2
# With a range assignment of several topics members differ by one partition per topic, which is
# normal. Twice as many partitions is a burden [pipeline/unbalanced-assignment].
UNBALANCED_RATIO = 2
UNBALANCED_PARTITIONS = 2

NEEDLESS = Rule("needless_moves", INFO, "partitions moved without need")
UNBALANCED = Rule(
    "unbalanced_assignment",
    INFO,
    "members with equal subscriptions have very different numbers of partitions",
)


def needless_moves(group: Group) -> Iterator[Finding]:
    """Find partitions that moved although a balanced assignment did not need it."""
    events = [event for event in group.events if (event.excess_moved or 0) >= NEEDLESS_MOVES]
    if not events:
        return
    excess = sum(event.excess_moved or 0 for event in events)
    moved = sum(event.moved for event in events)
    protocol, _ = most_frequent(event.protocol or "unknown" for event in events)
    worst = max(events, key=lambda event: event.excess_moved or 0)
    from_ms, to_ms = events[0].at_ms, events[-1].at_ms
    evidence = (
        f"{excess:,} of {counted(moved, 'move')} in {counted(len(events), 'rebalance')} were not"
        f" needed; assignor {protocol}"
    )
    cost = cost_of(excess, group.mean_lag(from_ms, to_ms))
    yield Finding(
        NEEDLESS.name, group.group_id, from_ms, to_ms, worst.at_ms, None, excess, evidence, cost
    )


class _Shares(NamedTuple):
    """The largest difference of shares so far."""

    apart: int
    most: int
    least: int
    generation: int
    at_ms: int


def unbalanced_assignment(group: Group) -> Iterator[Finding]:
    """Find members with equal subscriptions and very different numbers of partitions."""
    # Between the halves of a cooperative rebalance some partitions are not assigned.
    settled = {event.to_generation for event in group.events}
    # In the generation with which a group becomes a classic one its members have what they had.
    settled -= {event.to_generation for event in group.events if event.cause == DOWNGRADE}
    if len(group.events) > 1 and group.events[-1].partitions < group.events[-2].partitions:
        # The records end between the halves.
        settled.discard(group.events[-1].to_generation)
    table = group.rows.group_generations
    rows = rows_of(
        table.filter(pc.equal(table.column("state"), "Stable")),
        ["generation", "protocol", "record_ts", "state_ts", "members"],
    )
    found: list[_Shares] = []
    protocols = []
    for row in rows:
        members = row["members"] or ()
        topics = {None if each["topics"] is None else frozenset(each["topics"]) for each in members}
        if row["generation"] not in settled or len(members) < 2 or len(topics) != 1:
            continue
        counts = [len(each["assigned"] or ()) for each in members]
        most, least = max(counts), min(counts)
        if None in topics or most - least < UNBALANCED_PARTITIONS:
            continue
        if most < UNBALANCED_RATIO * least:
            continue
        at_ms = row["record_ts"] if row["record_ts"] is not None else row["state_ts"]
        found.append(_Shares(most - least, most, least, row["generation"], at_ms or 0))
        protocols.append(row["protocol"] or "unknown")
    if not found:
        return
    worst = max(found)
    evidence = (
        f"one member had {counted(worst.most, 'partition')}, another {worst.least}, in generation"
        f" {worst.generation}; assignor {most_frequent(protocols)[0]}"
    )
    times = [each.at_ms for each in found]
    yield Finding(
        UNBALANCED.name,
        group.group_id,
        min(times),
        max(times),
        worst.at_ms,
        None,
        worst.apart,
        evidence,
        cost_of(worst.apart, group.mean_lag(min(times), max(times))),
    )
