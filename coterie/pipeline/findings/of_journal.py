"""The rules about members and bursts, applied to facts of a journal that were just read.

`groups check` and the page have one rule set: this and `of_group` call the same functions
[pipeline/one-rule-set]. Nothing here needs Arrow.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from coterie.pipeline.findings import bursts, departed
from coterie.pipeline.findings.changes import MINUTE_MS, Changes, Event, Owned, Session
from coterie.pipeline.findings.finding import Finding, Rule
from coterie.pipeline.findings.outages import RESTART, outage_finding, outages
from coterie.pipeline.findings.precedence import is_explained_across, without_explained
from coterie.pipeline.timeline.from_facts import exit_evidence, silence_of
from coterie.pipeline.timeline.from_journal import journal_history
from coterie.pipeline.timeline.identity import identity_of
from coterie.pipeline.timeline.model import GroupHistory
from coterie.protocol.messages.journal_records import Fact, MemberRemoved, PartitionLoaded

# A member that joined before the first fact was there for longer than a short session.
_LONG_BEFORE_MS = 60 * MINUTE_MS

RULES: tuple[Rule, ...] = (
    bursts.STORM, RESTART, departed.EXPIRED, departed.MAX_POLL, bursts.FLAPPING,
)  # fmt: skip
_FIND: tuple[Callable[[Changes], Iterable[Finding]], ...] = (
    bursts.rebalance_bursts,
    bursts.flapping_members,
    departed.expired_members,
    departed.max_poll_exceeded,
)


def journal_findings(group_id: str, facts: Sequence[Fact], now_ms: int) -> list[Finding]:
    """Return the findings of `RULES` about a group.

    Args:
        group_id: the group.
        facts: its facts, in the order of the journal; the first ones may be missing.
        now_ms: the time.
    """
    changes = _Recorded(group_id, facts, now_ms)
    if not changes.events and not changes.sessions:
        return []
    found = [finding for find in _FIND for finding in find(changes)]
    # A journal has no commits, but it says when the coordinator loaded the group, so that a
    # restart is found that had an effect on its members [pipeline/outage].
    loaded_ms = [fact.at_ms for fact in facts if isinstance(fact, PartitionLoaded)]
    restarts = [
        outage_finding(each, {}, now_ms, group_id)
        for each in outages((), {group_id: changes.sessions}, loaded_ms)
    ]
    names = {rule.name for rule in RULES}
    return [
        *restarts,
        *(
            each
            for each in without_explained(found)
            if each.rule in names and not is_explained_across(each, restarts)
        ),
    ]


class _Recorded(Changes):
    """What a journal has recorded of a group."""

    def __init__(self, group_id: str, facts: Sequence[Fact], now_ms: int) -> None:
        super().__init__(group_id, now_ms)
        self._facts = facts
        self._history: GroupHistory = journal_history(group_id, facts)

    @cached_property
    def events(self) -> list[Event]:
        found = []
        for each in self._history.rebalances:
            at_ms = each.started_ms if each.started_ms is not None else each.completed_ms
            if at_ms is not None:
                found.append(
                    Event(
                        at_ms,
                        each.trigger.cause,
                        each.trigger.identity,
                        each.joined,
                        each.left,
                        each.members,
                        each.partitions,
                        each.unowned_partition_ms,
                        each.moved,
                        each.excess_moved,
                        each.protocol,
                        each.to_generation,
                    )
                )
        return found

    @cached_property
    def sessions(self) -> list[Session]:
        found = [
            Session(
                each.member_key,
                each.identity or each.member_key,
                each.first_seen_ms,
                each.last_seen_ms,
                each.exit_kind,
                each.entry_kind,
                each.silent_ms,
                each.session_timeout_ms,
                each.rebalance_timeout_ms,
                each.exit_evidence,
            )
            for each in self._history.sessions
        ]
        found += self._begun_before(found)
        return sorted(found, key=lambda session: session.from_ms)

    @cached_property
    def owned(self) -> list[Owned]:
        return [
            Owned(each.topic, each.partition, each.member_key, each.from_ms, each.to_ms)
            for each in self._history.ownership
        ]

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
