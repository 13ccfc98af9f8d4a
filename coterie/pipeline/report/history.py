"""A history as rows of the tables.

The terminal uses the same rows for a data directory, whose history was just worked out, as for the
output of a run.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coterie.pipeline.report.content import GroupContent, Place, Row, group_content
from coterie.pipeline.timeline.columns import (
    bump_columns,
    handover_columns,
    rebalance_columns,
    session_columns,
)
from coterie.pipeline.timeline.model import (
    Generation,
    GroupHistory,
    PartitionMove,
)


class CompletedGeneration(NamedTuple):
    """A completed generation, with the partitions that each member was assigned, by member key."""

    generation: int
    at_ms: int
    owned: Mapping[str, Sequence[Place]]


class Story(NamedTuple):
    """The story of a group.

    Attributes:
        group: its rows.
        moves: rows of `partition_moves`, by time.
        generations: the completed ones, by time; of a KIP-848 group the epochs that all members
            have reached, as far as they are kept.
    """

    group: GroupContent
    moves: list[Row]
    generations: list[CompletedGeneration]


def story_of(history: GroupHistory) -> Story:
    """Return the rows of a history."""
    tables = {
        "rebalances": [rebalance_columns(each) for each in history.rebalances],
        "ownership": [_in_columns(each) for each in history.ownership],
        "member_sessions": [session_columns(each) for each in history.sessions],
    }
    if history.epochs is not None:
        tables["epoch_bumps"] = [bump_columns(each) for each in history.epochs.bumps]
        tables["epoch_handovers"] = [handover_columns(each) for each in history.epochs.handovers]
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
    # The commits are not read here.
    return _in_columns(found) | {"committed_at_handover": None}


# The names of times in the tables.
_TIME_COLUMNS = {
    "at_ms": "at_ts",
    "from_ms": "from_ts",
    "to_ms": "to_ts",
}


def _in_columns(found: NamedTuple) -> Row:
    return {_TIME_COLUMNS.get(name, name): value for name, value in found._asdict().items()}
