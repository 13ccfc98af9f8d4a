"""A history that was worked out just now, as the rows that the tables have of one.

So the terminal tells a data directory's journal in the same words as the tables of a run.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coterie.pipeline.report.content import GroupContent, Row, group_content
from coterie.pipeline.timeline.columns import rebalance_columns
from coterie.pipeline.timeline.model import (
    Generation,
    GroupHistory,
    PartitionMove,
)

Place = tuple[str, int]


class CompletedGeneration(NamedTuple):
    """A generation when it was completed: what each member was given, by the member's key."""

    generation: int
    at_ms: int
    owned: Mapping[str, Sequence[Place]]


class Story(NamedTuple):
    """What is told of a group.

    Attributes:
        group: its rows.
        moves: rows of `partition_moves`, by time.
        generations: by time; none for KIP-848 groups, whose members go from epoch to epoch each
            at its own pace.
    """

    group: GroupContent
    moves: list[Row]
    generations: list[CompletedGeneration]


def story_of(history: GroupHistory) -> Story:
    """The rows of a history."""
    tables = {
        "rebalances": [rebalance_columns(each) for each in history.rebalances],
        "ownership": [_in_columns(each) for each in history.ownership],
        "member_sessions": [_in_columns(each) for each in history.sessions],
    }
    return Story(
        group_content(history.group_id, tables),
        [_move(each) for each in history.moves],
        [_generation(each) for each in history.generations],
    )


def _generation(found: Generation) -> CompletedGeneration:
    owned = {
        member.key: sorted((each.topic, each.partition) for each in member.assigned)
        for member in found.members
    }
    return CompletedGeneration(found.generation, found.completed_ms, dict(sorted(owned.items())))


def _move(found: PartitionMove) -> Row:
    # Who reads files only knows nothing of what was committed then.
    return _in_columns(found) | {"committed_at_handover": None}


# Moments are called `_ts` in tables.
_MOMENTS = {
    "at_ms": "at_ts",
    "from_ms": "from_ts",
    "to_ms": "to_ts",
    "first_seen_ms": "first_seen_ts",
    "last_seen_ms": "last_seen_ts",
}


def _in_columns(found: NamedTuple) -> Row:
    return {_MOMENTS.get(name, name): value for name, value in found._asdict().items()}
