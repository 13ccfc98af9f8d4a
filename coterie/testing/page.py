"""The report page of the groups of a test's brokers: what each did, in one file.

It is made of the journal, in the thread of the brokers, as `Group.history` is.
"""

from coterie.pipeline.report.content import content_of
from coterie.pipeline.report.history import story_of
from coterie.pipeline.report.page import render
from coterie.pipeline.timeline.combined import group_history
from coterie.server.broker import Broker
from coterie.testing.group_history import recorded_facts


async def groups_page(server: Broker, group_ids: list[str], title: str) -> str | None:
    """Return the page as HTML; None if no group has a rebalance. In the thread of the brokers."""
    groups = []
    for group_id in group_ids:
        facts, _ = await recorded_facts(server, group_id)
        story = story_of(group_history(group_id, facts, ()))
        if story.group.span_ms is not None:
            groups.append(story.group)
    if not groups:
        return None
    return render(content_of({}, ["journal of the test's broker"])._replace(groups=groups), title)
