"""A group's history from both: the journal where it reaches, the log before that.

The journal is kept for a week, `__consumer_offsets` for as long as compaction lets it. What the
journal covers it tells better; a rebalance that was over before its first fact comes from the log.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from coterie.pipeline.timeline.from_journal import journal_history
from coterie.pipeline.timeline.from_log import log_history
from coterie.pipeline.timeline.model import Generation, GroupHistory


def group_history(
    group_id: str, facts: Sequence[Any], logged: Iterable[Generation | None]
) -> GroupHistory:
    """The history of a group.

    Args:
        group_id: whose.
        facts: the journal's facts about it, in order; may be none.
        logged: its logged generations, in order; may be none.
    """
    if not facts:
        return log_history(group_id, logged)
    first_ms = facts[0].at_ms
    earlier = [each for each in logged if each is None or each.completed_ms < first_ms]
    while earlier and earlier[-1] is None:
        earlier.pop()
    if not earlier:
        return journal_history(group_id, facts)
    old = log_history(group_id, earlier)
    recent = journal_history(group_id, facts, after=old)
    # What was still going on when the journal begins is told to its end by the journal's part.
    return GroupHistory(
        group_id,
        old.generations + recent.generations,
        old.rebalances + recent.rebalances,
        old.moves + recent.moves,
        [each for each in old.ownership if each.to_ms is not None] + recent.ownership,
        [each for each in old.sessions if each.last_seen_ms is not None] + recent.sessions,
    )
