"""The rules about members, bursts and many groups, applied to the facts of a journal.

`groups check` and the page have one rule set: this and `of_group` call the same functions
[pipeline/one-finding-a-cause]. Nothing here needs Arrow.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from coterie.pipeline.findings import bursts, departed, epochs
from coterie.pipeline.findings.changes import (
    MINUTE_MS,
    Bump,
    Changes,
    Event,
    Owned,
    Session,
    bump_of,
    event_of,
    session_of,
)
from coterie.pipeline.findings.finding import Finding, Rule
from coterie.pipeline.findings.many_groups import Touch, findings_across, in_order, touch_of
from coterie.pipeline.findings.outages import RESTART, outage_finding, outages
from coterie.pipeline.findings.precedence import is_explained_across, without_explained
from coterie.pipeline.timeline.columns import bump_columns, rebalance_columns, session_columns
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.from_facts import exit_evidence, silence_of
from coterie.pipeline.timeline.model import (
    SHARE,
    GroupHistory,
    identity_of,
)
from coterie.pipeline.timeline.tasks import OWNING_ROLES
from coterie.protocol.messages.journal_records import (
    Fact,
    MemberRemoved,
)
from coterie.protocol.messages.partition_facts import PartitionLoaded, is_move

# A member that joined before the first fact was there for longer than a short session.
_LONG_BEFORE_MS = 60 * MINUTE_MS

RULES: tuple[Rule, ...] = (
    bursts.STORM, RESTART, departed.EXPIRED, departed.MAX_POLL, bursts.FLAPPING,
    epochs.UNSETTLED,
)  # fmt: skip
_FIND: tuple[Callable[[Changes], Iterable[Finding]], ...] = (
    bursts.rebalance_bursts,
    bursts.flapping_members,
    departed.expired_members,
    departed.max_poll_exceeded,
    epochs.unsettled_epochs,
)


def journal_findings(
    histories: Mapping[str, Sequence[Fact]], now_ms: int
) -> dict[str, list[Finding]]:
    """Return the findings of `RULES` by group.

    What happened to many groups is a finding of each group that it touched, and of those of which
    it explains another finding. It has no `group_id`, unless there is only one group.

    Args:
        histories: the facts of each group, in the order of the journal; the first ones may be
            missing. Without those of other groups nothing is found across groups.
        now_ms: the time.
    """
    changes = {
        group_id: _Recorded(group_id, facts, now_ms) for group_id, facts in histories.items()
    }
    across = _across(changes, histories, now_ms)
    names = {rule.name for rule in RULES}
    found: dict[str, list[Finding]] = {}
    for group_id, recorded in changes.items():
        of_group = without_explained([each for find in _FIND for each in find(recorded)])
        own = [each for each in of_group if not is_explained_across(each, across)]
        explained = [each for each in of_group if each not in own]
        shared = [
            each
            for each in across
            if group_id in (each.group_id, *each.groups)
            or any(is_explained_across(one, [each]) for one in explained)
        ]
        found[group_id] = [each for each in [*shared, *own] if each.rule in names]
    return found


def _across(
    changes: Mapping[str, "_Recorded"], histories: Mapping[str, Sequence[Fact]], now_ms: int
) -> list[Finding]:
    sessions = {group_id: each.sessions for group_id, each in changes.items()}
    # A journal has no commits, but it says when the coordinator loaded the groups, so that a
    # restart is found that had an effect on their members [pipeline/outage].
    # A load at another broker is a move, which no member notices.
    loads = {
        fact.at_ms
        for facts in histories.values()
        for before, fact in pairwise([None, *facts])
        if isinstance(fact, PartitionLoaded)
        and not is_move(-1 if before is None else before.node_id, fact)
    }
    if len(changes) == 1:
        return [
            outage_finding(each, {}, now_ms, group_id)
            for group_id in changes
            for each in outages((), sessions, sorted(loads))
        ]
    touches = in_order(each.touches for each in changes.values())
    known = sum(bool(each.events) for each in changes.values())
    return findings_across(touches, sessions, known, (), sorted(loads), now_ms)


def recorded(group_id: str, facts: Sequence[Fact], now_ms: int) -> Changes:
    """Return what the facts of a group say of it.

    Args:
        group_id: the group.
        facts: its facts, in the order of the journal.
        now_ms: the time.
    """
    return _Recorded(group_id, facts, now_ms)


class _Recorded(Changes):
    """What a journal has recorded of a group."""

    def __init__(self, group_id: str, facts: Sequence[Fact], now_ms: int) -> None:
        super().__init__(group_id, now_ms)
        self._facts = facts
        self._history: GroupHistory = group_history(group_id, facts, ())

    @cached_property
    def is_share_group(self) -> bool:
        return any(each.group_type == SHARE for each in self._history.rebalances)

    @cached_property
    def events(self) -> list[Event]:
        every = (event_of(rebalance_columns(each)) for each in self._history.rebalances)
        return [event for event in every if event is not None]

    @property
    def touches(self) -> list[Touch]:
        """Its rebalances, as far as they matter across groups."""
        return [touch_of(self.group_id, each) for each in self.events]

    @cached_property
    def sessions(self) -> list[Session]:
        found = [session_of(session_columns(each)) for each in self._history.sessions]
        found += self._begun_before(found)
        return sorted(found, key=lambda session: session.from_ms)

    @cached_property
    def owned(self) -> list[Owned]:
        return [
            Owned(each.topic, each.partition, each.member_key, each.from_ms, each.to_ms)
            for each in self._history.ownership
            if each.role in OWNING_ROLES
        ]

    @cached_property
    def bumps(self) -> list[Bump]:
        known = self._history.epochs
        return [bump_of(bump_columns(each)) for each in known.bumps] if known else []

    def mean_lag(self, from_ms: int, to_ms: int) -> float:  # noqa: ARG002 - no lag is recorded
        return 0.0

    def _begun_before(self, known: Sequence[Session]) -> Iterator[Session]:
        """Yield the sessions of members that joined before the first fact and have left since."""
        ends = {(each.member_key, each.to_ms) for each in known}
        for fact in self._facts:
            if not isinstance(fact, MemberRemoved):
                continue
            key = fact.group_instance_id or fact.member_id
            if (key, fact.at_ms) in ends:
                continue
            identity = identity_of(key, fact.member_id, fact.client_id, fact.client_host)
            yield Session(
                key,
                identity or key,
                fact.at_ms - _LONG_BEFORE_MS,
                fact.at_ms,
                fact.cause,
                silent_ms=silence_of(fact),
                session_timeout_ms=fact.session_timeout_ms,
                exit_evidence=exit_evidence(fact),
            )
