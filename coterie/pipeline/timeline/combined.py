"""A group's history from the journal, and from the group log before that.

The journal says more but is kept for a week; the group log reaches back as far as compaction allows
[pipeline/journal-then-log].
"""

from collections.abc import Iterable, Sequence
from typing import Any

from coterie.pipeline.timeline.from_journal import journal_history
from coterie.pipeline.timeline.from_log import log_history
from coterie.pipeline.timeline.model import Generation, GroupHistory


def group_history(
    group_id: str, facts: Sequence[Any], logged: Iterable[Generation | None]
) -> GroupHistory:
    """Work out the history of a group.

    Args:
        group_id: the group.
        facts: the journal's facts about it, in order; may be empty.
        logged: its logged generations, in order; may be empty.
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
    # The journal's part begins with the members and owners at the end of the log's part, so it
    # contains the intervals and sessions that were open then.
    return GroupHistory(
        group_id,
        old.generations + recent.generations,
        old.rebalances + recent.rebalances,
        old.moves + recent.moves,
        [each for each in old.ownership if each.to_ms is not None] + recent.ownership,
        [each for each in old.sessions if each.last_seen_ms is not None] + recent.sessions,
    )
