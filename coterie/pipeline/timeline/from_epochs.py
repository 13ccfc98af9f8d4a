"""The history of a group with epochs from its records, and from the journal's facts.

It is a consumer group (KIP-848) or a streams group (KIP-1071), whose records have tasks where the
others have partitions [pipeline/streams-tasks].

The log has every step, until compaction removes it. The journal says why epochs rose and members
were removed, and keeps what the log has lost. A fact belongs to the record that its operation
wrote; a fact without a record is an event of its own, without partitions.
Topics are named by ids in the log [pipeline/topic-ids].
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.pipeline.records.streams import ACTIVE
from coterie.pipeline.records.streams import KINDS as STREAMS_KINDS
from coterie.pipeline.timeline.epoch_state import Removal, Step, Subscriber, Work
from coterie.pipeline.timeline.epochs import SETTINGS, TOPICS, VALIDATED, EpochTimeline
from coterie.pipeline.timeline.from_facts import exit_evidence, process_of, silence_of
from coterie.pipeline.timeline.model import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    UPGRADE,
    Copy,
    GroupHistory,
    RecordedMember,
    Trigger,
)
from coterie.protocol.messages import consumer_group_facts as epoch_facts
from coterie.protocol.messages import journal_records as journal

Row = Mapping[str, Any]

# A record is written at the end of the turn in which its fact was noted. A broker that is busy
# takes longer.
_SAME_MS = 10_000
# A fact without a record comes after the records of the same turn.
_AFTER_RECORDS_MS = 100

# What a record and its fact have in common: a kind, and an epoch or a member id.
_Subject = tuple[str, Any]
# What raises the epoch of a streams group if the record of a member changes it.
_DESCRIBED = (
    "rack_id", "client_id", "client_host", "rebalance_timeout_ms", "topology_epoch", "process_id",
    "client_tags", "endpoint",
)  # fmt: skip
_OF_MEMBERS = (journal.MemberJoined, journal.MemberRemoved, journal.StaticMemberReplaced)


def epochs_history(
    group_id: str,
    rows: Iterable[Row],
    topic_names: Mapping[str, str] | None = None,
    facts: Sequence[Any] = (),
) -> GroupHistory:
    """Work out the history of a group.

    Args:
        group_id: the group.
        rows: rows of the view `consumer_epochs`, in the order of the log.
        topic_names: the known names by topic id; other topics are named by their ids.
        facts: the facts of the journal about it as a consumer group, in order.
    """
    return history_from(EpochTimeline(group_id), rows, topic_names, facts)


def history_from(
    timeline: EpochTimeline,
    rows: Iterable[Row],
    topic_names: Mapping[str, str] | None,
    facts: Sequence[Any],
) -> GroupHistory:
    """Work out the history of a group with the timeline of its type; see `epochs_history`."""
    reader = _Reader(timeline, topic_names or {})
    for at_ms, row, fact in _together(rows, facts):
        if row is None:
            reader.fact(fact)
        else:
            reader.row(row, at_ms, fact)
    return reader.timeline.history()


def _together(rows: Iterable[Row], facts: Sequence[Any]) -> Iterator[tuple[int, Row | None, Any]]:
    """Yield records with their facts, and facts without a record, in order of time."""
    waiting: dict[_Subject, list[Any]] = {}
    for fact in facts:
        for subject in _subjects_of(fact):
            waiting.setdefault(subject, []).append(fact)
    taken: set[int] = set()
    found: list[tuple[int, Row | None, Any]] = []
    now_ms = 0
    for row in rows:
        at = row["record_ts"]
        # The order of the log is the order of events, whatever the clock did.
        now_ms = now_ms if at is None else max(now_ms, _ms(at))
        fact = None
        for each in waiting.get(_subject_of(row), ()):
            if id(each) not in taken and 0 <= now_ms - each.at_ms <= _SAME_MS:
                fact = each
                taken.add(id(each))
                break
        found.append((now_ms, row, fact))
    found += [
        (each.at_ms + _AFTER_RECORDS_MS, None, each) for each in facts if id(each) not in taken
    ]
    # Of one moment members come and go first: the journal says that after what follows from it.
    found.sort(key=lambda each: (each[0], each[1] is None and not isinstance(each[2], _OF_MEMBERS)))
    yield from found


def _subject_of(row: Row) -> _Subject:
    kind, is_removed = row["kind"], row["is_tombstone"]
    if kind == "group":
        return ("end", None) if is_removed else ("epoch", row["group_epoch"])
    if kind == "member":
        return ("removal" if is_removed else "member", row["member_id"])
    if kind == "target" and not is_removed:
        return ("target", row["target_epoch"])
    return ("other", None)


def _subjects_of(fact: Any) -> tuple[_Subject, ...]:
    """Return what the record of a fact is about; none if it has no record of its own."""
    match fact:
        case epoch_facts.GroupEpochRaised():
            return (("epoch", fact.epoch),)
        case epoch_facts.GroupTypeChanged():
            became = fact.group_type == CONSUMER
            return (("epoch", fact.epoch),) if became else (("end", None),)
        case epoch_facts.TargetComputed():
            return (("target", fact.epoch),)
        case journal.MemberJoined() | journal.StaticMemberReplaced():
            return (("member", fact.member_id),)
        case journal.MemberRemoved():
            return (("removal", fact.member_id),)
        case journal.GroupDeleted() | journal.GroupExpired():
            return (("end", None),)
    return ()


class _Reader:
    """Brings records and facts to the timeline of a group."""

    def __init__(self, timeline: EpochTimeline, topic_names: Mapping[str, str]) -> None:
        self.timeline = timeline
        self._topic_names = topic_names
        # The last record with the epoch of a streams group.
        self._epoch: Row | None = None

    def row(self, row: Row, at_ms: int, fact: Any) -> None:
        """Apply a record, and the fact of its operation if there is one."""
        timeline, is_removed = self.timeline, row["is_tombstone"]
        if timeline.group_type != SHARE:
            timeline.group_type = STREAMS if row.get("record_type") in STREAMS_KINDS else CONSUMER
        match row["kind"]:
            case "member" if is_removed:
                timeline.removed(row["member_id"], at_ms, _removal(fact))
            case "member":
                timeline.subscribed(_subscriber(row, fact), at_ms)
            case "group" if is_removed:
                timeline.ended(at_ms)
            case "group":
                before, self._epoch = self._epoch, row
                otherwise = TOPICS if before is None else _what_changed(before, row)
                timeline.bumped(row["group_epoch"], at_ms, _trigger(fact), otherwise=otherwise)
            case "topology" if not is_removed:
                timeline.reads = {
                    each["subtopology"]: tuple(each["topics"] or ())
                    for each in row["subtopologies"] or ()
                }
            case "regex":
                topics = None if is_removed else row["topics"] or ()
                timeline.resolved(row["regex"], topics, at_ms)
            case "share_states" if not is_removed:
                timeline.initialized(len(row["initialized"] or ()))
            case "target_member":
                work = Work() if is_removed else self._work(row, "assigned")
                timeline.shall_have(row["member_id"], work)
            case "target" if not is_removed:
                timeline.targeted(row["target_epoch"], at_ms)
                if fact is not None:
                    _computed(timeline, fact)
            case "current_member" if not is_removed:
                timeline.stepped(row["member_id"], self._step(row, at_ms))

    def fact(self, fact: Any) -> None:
        """Apply a fact without a record; facts that change nothing are ignored."""
        handler = _HANDLERS.get(type(fact))
        if handler is not None:
            handler(self.timeline, fact)

    def _step(self, row: Row, at_ms: int) -> Step:
        assigned, pending = self._work(row, "assigned"), self._work(row, "pending")
        return Step(
            at_ms,
            row["member_epoch"],
            row.get("previous_epoch"),
            row["state"],
            assigned.partitions,
            pending.partitions,
            assigned.copies,
            pending.copies,
        )

    def _work(self, row: Row, which: str) -> Work:
        """Return what a member has or shall have (assigned), or has yet to give up (pending)."""
        if self.timeline.group_type == STREAMS:
            tasks = row[f"{which}_tasks"] or ()
            return Work(
                frozenset(
                    TopicPartition(each["subtopology"], each["partition"])
                    for each in tasks
                    if each["role"] == ACTIVE
                ),
                frozenset(
                    Copy(each["subtopology"], each["partition"], each["role"])
                    for each in tasks
                    if each["role"] != ACTIVE
                ),
            )
        names = self._topic_names
        listed = row["assigned" if which == "assigned" else "pending_revocation"] or ()
        return Work(
            frozenset(
                TopicPartition(names.get(each["topic_id"], each["topic_id"]), each["partition"])
                for each in listed
            )
        )


def _what_changed(before: Row, now: Row) -> str:
    """Return why the epoch of a streams group rose, if it was no member.

    This is the order of the coordinator [streams-groups/epoch-bumps].
    """
    if before.get("metadata_hash") != now.get("metadata_hash"):
        return TOPICS
    if before.get("topology_epoch") != now.get("topology_epoch"):
        return VALIDATED
    if before.get("standby_replicas") != now.get("standby_replicas"):
        return SETTINGS
    return TOPICS


def _subscriber(row: Row, fact: Any) -> Subscriber:
    member = RecordedMember(
        row["member_id"],
        row["instance_id"],
        row["client_id"] or "",
        row["client_host"] or "",
        tuple(row.get("topics") or ()),
        (),
        (),
        session_timeout_ms=getattr(fact, "session_timeout_ms", None),
        rebalance_timeout_ms=row.get("rebalance_timeout_ms"),
    )
    return Subscriber(
        member,
        bool(row.get("is_classic_member")),
        row.get("regex") or None,
        row.get("server_assignor"),
        row.get("process_id"),
        tuple(str(row.get(name)) for name in _DESCRIBED) if row.get("process_id") else (),
    )


def _removal(fact: journal.MemberRemoved | None) -> Removal | None:
    return None if fact is None else Removal(fact.cause, exit_evidence(fact), silence_of(fact))


def _trigger(fact: Any) -> Trigger | None:
    if fact is None:
        return None
    if isinstance(fact, epoch_facts.GroupTypeChanged):
        return Trigger(UPGRADE)
    key = fact.group_instance_id or fact.member_id
    return Trigger(fact.cause, key, fact.member_id, fact.client_id, fact.client_host)


# -- facts without a record ------------------------------------------------------------------------


def _joined(timeline: EpochTimeline, fact: journal.MemberJoined) -> None:
    timeline.subscribed(Subscriber(process_of(fact)), fact.at_ms)


def _replaced(timeline: EpochTimeline, fact: journal.StaticMemberReplaced) -> None:
    timeline.replaced(process_of(fact), fact.at_ms, rebalances=fact.rebalances)


def _removed(timeline: EpochTimeline, fact: journal.MemberRemoved) -> None:
    timeline.removed(fact.member_id, fact.at_ms, _removal(fact))


def _raised(timeline: EpochTimeline, fact: epoch_facts.GroupEpochRaised) -> None:
    if timeline.group_type != SHARE:
        timeline.group_type = STREAMS if fact.group_type == STREAMS else CONSUMER
    timeline.bumped(fact.epoch, fact.at_ms, _trigger(fact), fact.member_count)


def _computed(timeline: EpochTimeline, fact: epoch_facts.TargetComputed) -> None:
    changed, moved = fact.changed_members, fact.moved_partitions
    timeline.computed(fact.epoch, fact.at_ms, fact.assignor, changed, moved)


def _converged(timeline: EpochTimeline, fact: epoch_facts.GroupConverged) -> None:
    timeline.converged(fact.epoch, fact.at_ms)


def _type_changed(timeline: EpochTimeline, fact: epoch_facts.GroupTypeChanged) -> None:
    if fact.group_type == CLASSIC:
        timeline.ended(fact.at_ms)
    else:
        timeline.bumped(fact.epoch, fact.at_ms, _trigger(fact), fact.member_count)


def _deleted(timeline: EpochTimeline, fact: journal.GroupDeleted | journal.GroupExpired) -> None:
    timeline.ended(fact.at_ms)


_HANDLERS: dict[type, Callable[[EpochTimeline, Any], None]] = {
    journal.MemberJoined: _joined,
    journal.StaticMemberReplaced: _replaced,
    journal.MemberRemoved: _removed,
    journal.GroupDeleted: _deleted,
    journal.GroupExpired: _deleted,
    epoch_facts.GroupEpochRaised: _raised,
    epoch_facts.TargetComputed: _computed,
    epoch_facts.GroupConverged: _converged,
    epoch_facts.GroupTypeChanged: _type_changed,
}


def _ms(at: Any) -> int:
    """Return a time, epoch milliseconds or a datetime, as epoch milliseconds."""
    return round(at.timestamp() * 1000) if isinstance(at, datetime) else int(at)
