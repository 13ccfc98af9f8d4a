"""Rules that the records of a group must keep, whatever its members do, in plain Python.

Each rule is a function of one group's completed generations, from the log and from the journal.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

ERROR, WARNING = "error", "warning"

# A group that is created again begins with these numbers. Compaction may have removed the tombstone
# before them.
_FIRST_GENERATIONS = (0, 1)
_DELETIONS = ("group_deleted", "group_expired")
# The facts that are generations, or delete the group.
GENERATION_FACTS = ("generation_completed", "group_emptied", *_DELETIONS)

LOG, JOURNAL = "log", "journal"
Partition = tuple[str, int]
Row = dict[str, Any]


class Finding(NamedTuple):
    """A place where a rule does not hold.

    Attributes:
        rule: the name of the rule.
        severity: error or warning.
        subject: a group, a partition or a log.
        detail: what was found, as a sentence.
    """

    rule: str
    severity: str
    subject: str
    detail: str


class Assigned(NamedTuple):
    """A member of a generation: its key, the topics it subscribes to, and its partitions."""

    member_key: str
    topics: Sequence[str] | None
    partitions: Sequence[Partition]


class Generation(NamedTuple):
    """A completed generation, or a deletion of the group.

    Attributes:
        source: log or journal.
        place: its offset there.
        generation: its number; None for some deletions.
        resets: whether it is a deletion.
        is_rewrite: whether it has the number of the generation before it.
        members: its members; None if they are not known.
    """

    source: str
    place: int
    generation: int | None
    resets: bool
    is_rewrite: bool
    members: Sequence[Assigned] | None


def logged_generation(row: Row) -> Generation:
    """Return a row of `group_generations`."""
    members = _members(row["members"])
    return Generation(
        LOG, row["log_offset"], row["generation"], row["is_tombstone"], row["is_rewrite"], members
    )


def recorded_generation(row: Row) -> Generation:
    """Return a row of `group_events` whose fact is one of `GENERATION_FACTS`."""
    members = _members(json.loads(row["detail"] or "{}").get("members"))
    return Generation(
        JOURNAL, row["log_offset"], row["generation"], row["fact"] in _DELETIONS, False, members
    )


def _members(rows: Iterable[Row] | None) -> list[Assigned] | None:
    if rows is None:
        return None
    return [
        Assigned(
            row["member_key"],
            row["topics"],
            [(each["topic"], each["partition"]) for each in row["assigned"] or ()],
        )
        for row in rows
    ]


def one_owner(group_id: str, generations: Sequence[Generation]) -> Iterator[Finding]:
    """Find partitions with several owners in a generation [pipeline/checks]."""
    for each in generations:
        members = each.members or ()
        times = Counter(partition for member in members for partition in member.partitions)
        for (topic, partition), count in times.items():
            if count == 1:
                continue
            owners = {
                member.member_key for member in members if (topic, partition) in member.partitions
            }
            yield Finding(
                "one_owner",
                ERROR,
                group_id,
                f"generation {each.generation} ({each.source}): {topic}-{partition} was assigned"
                f" {count} times: {', '.join(sorted(owners))}",
            )


def assigned_within_subscribed(
    group_id: str, generations: Sequence[Generation]
) -> Iterator[Finding]:
    """Find assigned topics without subscription [pipeline/checks]."""
    for each in generations:
        for member in each.members or ():
            for topic, partition in member.partitions:
                if member.topics is None or topic in member.topics:
                    continue
                yield Finding(
                    "assigned_within_subscribed",
                    ERROR,
                    group_id,
                    f"generation {each.generation} ({each.source}): {member.member_key} was"
                    f" assigned {topic}-{partition}, but subscribes to"
                    f" {', '.join(member.topics)}",
                )


def generations_increase(group_id: str, generations: Sequence[Generation]) -> Iterator[Finding]:
    """Find generations whose number is not larger than the one before
    [pipeline/checks].
    """
    for source in (LOG, JOURNAL):
        of_source = [each for each in generations if each.source == source]
        for before, each in pairwise(of_source):
            if before.resets or each.resets or each.is_rewrite:
                continue
            if each.generation is None or before.generation is None:
                continue
            if each.generation > before.generation:
                continue
            is_first = each.generation in _FIRST_GENERATIONS
            yield Finding(
                "generations_increase",
                WARNING if is_first else ERROR,
                group_id,
                f"generation {each.generation} follows {before.generation} in the {source} at"
                f" offset {each.place}"
                + ("; the group may have been deleted and created again" if is_first else ""),
            )


def journal_and_log_agree(group_id: str, generations: Sequence[Generation]) -> Iterator[Finding]:
    """Find generations of which journal and log disagree [pipeline/checks]."""
    in_log = [each for each in generations if each.source == LOG]
    logged: dict[int | None, list[Any]] = {}
    for each in in_log:
        if not each.resets and not each.is_rewrite:
            logged.setdefault(each.generation, []).append(_assignment(each))
    newest = in_log[-1] if in_log else None
    in_journal = [
        each for each in generations if each.source == JOURNAL and not each.resets and each.members
    ]
    for each in in_journal:
        if each.generation in logged:
            if _assignment(each) in logged[each.generation]:
                continue
            what = "has another assignment in the log"
        else:
            # Compaction keeps only the newest generation of a group.
            reached = -1 if newest is None or newest.generation is None else newest.generation
            is_missing = (
                each is in_journal[-1]
                and not (newest is not None and newest.resets)
                and each.generation is not None
                and reached < each.generation
            )
            if not is_missing:
                continue
            what = "is not in the log"
        yield Finding(
            "journal_and_log_agree",
            ERROR,
            group_id,
            f"generation {each.generation} of the journal {what}",
        )


def _assignment(generation: Generation) -> list[tuple[str, list[Partition]]]:
    return sorted((each.member_key, sorted(each.partitions)) for each in generation.members or ())


def moves_add_up(rebalances: Iterable[Row]) -> Iterator[Finding]:
    """Find rebalances that moved less than was needed [pipeline/checks].

    Args:
        rebalances: rows of `rebalances`.
    """
    for row in rebalances:
        if row["excess_moved"] is not None and row["excess_moved"] < 0:
            yield Finding(
                "moves_add_up",
                ERROR,
                row["group_id"],
                f"the rebalance to generation {row['to_generation']} moved {row['moved']}"
                f" partitions and needed {row['moved_min']}",
            )


GroupRule = Callable[[str, Sequence[Generation]], Iterator[Finding]]
GROUP_RULES: tuple[GroupRule, ...] = (
    one_owner,
    assigned_within_subscribed,
    generations_increase,
    journal_and_log_agree,
)


def check_group(group_id: str, generations: Iterable[Generation]) -> list[Finding]:
    """Check one group's generations.

    Args:
        group_id: the group.
        generations: its generations, in any order.
    """
    ordered = sorted(generations, key=attrgetter("source", "place"))
    return [finding for rule in GROUP_RULES for finding in rule(group_id, ordered)]
