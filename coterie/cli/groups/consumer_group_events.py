"""The lines of `coterie groups history` about groups with epochs.

These are consumer groups (KIP-848), share groups and streams groups, of which the tasks are counted
where the others have partitions.
"""

from collections.abc import Callable
from typing import Any

from coterie.cli.output import printable
from coterie.cli.timeline import Event, joined_text, member_name
from coterie.client.group_description import CONSUMER_GROUP, STREAMS_GROUP
from coterie.client.names import counted
from coterie.client.times import duration_text
from coterie.protocol.messages import consumer_group_facts as facts

_UNKNOWN_MS = -1


def _unit(fact: facts.TargetComputed | facts.MemberReconciled) -> str:
    """Return what members are given."""
    return "task" if fact.group_type == STREAMS_GROUP else "partition"


def _epoch_raised(fact: facts.GroupEpochRaised) -> Event:
    by = None if fact.member_id is None else f"by {member_name(fact.member_id)}"
    details = joined_text(fact.cause, by, counted(fact.member_count, "member"))
    return Event(fact.at_ms, "▲", "yellow", f"epoch {fact.epoch}", details)


def _target_computed(fact: facts.TargetComputed) -> Event:
    moved = fact.moved_partitions
    details = joined_text(
        printable(fact.assignor),
        f"{counted(fact.changed_members, 'member')} of {fact.member_count} with another target",
        f"{counted(moved, _unit(fact))} to move" if moved else None,
    )
    return Event(fact.at_ms, "·", "", f"target of epoch {fact.epoch}", details)


def _member_reconciled(fact: facts.MemberReconciled) -> Event:
    details = joined_text(
        f"{counted(fact.revoked, _unit(fact))} to give up" if fact.revoked else None,
        f"{counted(fact.added, _unit(fact))} more" if fact.added else None,
        f"epoch {fact.previous_epoch} to {fact.epoch}"
        if fact.previous_epoch != fact.epoch
        else f"at epoch {fact.epoch}",
        fact.state,
    )
    return Event(fact.at_ms, "·", "dim", f"{member_name(fact.member_id)} reconciled", details)


def _converged(fact: facts.GroupConverged) -> Event:
    took = None if fact.converged_ms == _UNKNOWN_MS else f"in {duration_text(fact.converged_ms)}"
    details = joined_text(took, counted(fact.member_count, "member"))
    return Event(fact.at_ms, "■", "green", f"epoch {fact.epoch} stable", details)


def _type_changed(fact: facts.GroupTypeChanged) -> Event:
    # The number goes on.
    generation, epoch = f"generation {fact.epoch}", f"epoch {fact.epoch}"
    upgrade = fact.group_type == CONSUMER_GROUP
    details = joined_text(
        "the group became a consumer group" if upgrade else "the group became a classic group",
        f"{generation} is {epoch} now" if upgrade else f"{epoch} is {generation} now",
        counted(fact.member_count, "member"),
    )
    return Event(fact.at_ms, "◆", "cyan", "upgrade" if upgrade else "downgrade", details)


def _regex_resolved(fact: facts.RegexResolved) -> Event:
    details = joined_text(
        counted(fact.topic_count, "topic"),
        f"{fact.gained} more" if fact.gained else None,
        f"{fact.lost} less" if fact.lost else None,
    )
    return Event(fact.at_ms, "·", "", f"{printable(fact.regex)} resolved", details)


def _static_member_left(fact: facts.StaticMemberLeft) -> Event:
    details = f"epoch {fact.epoch}, its partitions wait {duration_text(fact.kept_ms)} for it"
    return Event(fact.at_ms, "-", "yellow", f"{printable(fact.group_instance_id)} is away", details)


EVENTS: dict[type, Callable[[Any], Event]] = {
    facts.GroupEpochRaised: _epoch_raised,
    facts.TargetComputed: _target_computed,
    facts.MemberReconciled: _member_reconciled,
    facts.GroupConverged: _converged,
    facts.GroupTypeChanged: _type_changed,
    facts.RegexResolved: _regex_resolved,
    facts.StaticMemberLeft: _static_member_left,
}
