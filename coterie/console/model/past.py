"""The rebalances of the last hour, by group: from the journal, or from the states that were seen.

Facts of the last hour are kept, at most `_MOST_FACTS` of a group and `MOST_FACTS` of all, and
`_MOST_MARKS` rebalances of a group, which may be older than its facts. A broker
without a journal says nothing of causes: there a rebalance is what was seen between two looks, and
its cause is null [console/rows].
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from coterie.client.group_description import GroupDescription
from coterie.client.health.observation import REBALANCING
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.model import Rebalance
from coterie.protocol.messages.journal_records import Fact

HOUR_MS = 60 * 60 * 1000
# A rebalance of a few members has some ten facts. All of these are evaluated when one is added.
_MOST_FACTS = 500
# A fact takes about a kilobyte.
MOST_FACTS = 50_000
_MOST_MARKS = 200


class Mark(NamedTuple):
    """A rebalance in a strip.

    Attributes:
        from_ms, to_ms: its beginning and end; no end while it runs.
        cause: why it began; None if that is not known.
        who: the member that caused it; None if that is not known.
        unowned_ms: the time without owner, summed over partitions; None if that is not known.
    """

    from_ms: int
    to_ms: int | None
    cause: str | None
    who: str | None
    unowned_ms: int | None


class Recorded:
    """What the journal has recorded of the groups in the last hour."""

    def __init__(self, most_facts: int = MOST_FACTS) -> None:
        """Begin without facts; `most_facts` are kept."""
        self.facts: dict[str, deque[Fact]] = {}
        self._most_facts = most_facts
        self._count = 0

    def add(
        self, group_id: str, facts: Sequence[Fact], before: Sequence[Mark], now_ms: int
    ) -> list[Mark]:
        """Add facts about a group, and return its rebalances.

        Args:
            group_id: the group.
            facts: the next facts.
            before: its rebalances before them.
            now_ms: the time.
        """
        known = self.facts.pop(group_id, None) or deque[Fact]()
        self._count += len(facts)
        known.extend(facts)
        while known and (known[0].at_ms < now_ms - HOUR_MS or len(known) > _MOST_FACTS):
            known.popleft()
            self._count -= 1
        # The groups that were quiet for longest come first.
        self.facts[group_id] = known
        while self._count > self._most_facts and len(self.facts) > 1:
            quiet = next(iter(self.facts))
            self._count -= len(self.facts.pop(quiet))
        marks = marks_of(group_id, list(known))
        first_ms = marks[0].from_ms if marks else now_ms
        old = [each for each in before if each.to_ms is not None and each.to_ms <= first_ms]
        # What has begun before the first fact that is kept was seen whole before.
        recent = [each for each in old if each.from_ms > now_ms - HOUR_MS]
        return [*recent, *marks][-_MOST_MARKS:]


def marks_of(group_id: str, facts: Sequence[Fact]) -> list[Mark]:
    """Return the rebalances of a group, as its facts tell them."""
    history = group_history(group_id, facts, ())
    return [mark for each in history.rebalances if (mark := _mark_of(each))]


def _mark_of(rebalance: Rebalance) -> Mark | None:
    from_ms = rebalance.started_ms or rebalance.completed_ms
    if from_ms is None:
        return None
    trigger = rebalance.trigger
    return Mark(
        from_ms,
        rebalance.completed_ms,
        trigger.cause,
        trigger.identity or trigger.member_key,
        rebalance.unowned_partition_ms,
    )


class Seen:
    """What was seen of a group whose broker keeps no journal."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self._last: tuple[int, Any] | None = None

    def add(self, at_ms: int, state: str, group: GroupDescription | None) -> None:
        """Add a look at the group."""
        members = (
            frozenset() if group is None else frozenset(_member(each) for each in group.members)
        )
        shape = members, None if group is None else group.group_epoch
        before, self._last = self._last, (at_ms, shape)
        runs = bool(self.marks) and self.marks[-1].to_ms is None
        if state in REBALANCING:
            if not runs:
                self.marks.append(Mark(at_ms, None, None, None, None))
        elif runs:
            self.marks[-1] = self.marks[-1]._replace(to_ms=at_ms)
        elif before is not None and before[1] != shape:
            # It has begun and ended between two looks.
            self.marks.append(Mark(before[0], at_ms, None, None, None))
        del self.marks[:-_MOST_MARKS]


def _member(member: Any) -> tuple[str, Any]:
    assigned = member.assignment or {}
    return member.member_id, frozenset((topic, tuple(each)) for topic, each in assigned.items())
