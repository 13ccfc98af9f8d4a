"""Rules that the records of a group with epochs must keep, whatever its members do.

It is a consumer group (KIP-848) or a streams group (KIP-1071), whose active tasks have one owner
each, like partitions.

Each rule reads one group's rows of `consumer_epochs`, in the order of the log. Compaction may have
removed records between two that are there; a rule says what that can explain.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from coterie.pipeline.check_rules import ERROR, WARNING, Finding
from coterie.pipeline.records.streams import ACTIVE
from coterie.pipeline.timeline.shares import is_share_group

Row = dict[str, Any]
_Place = tuple[str, int]


def epochs_increase(group_id: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Find group epochs that are not larger than the one before [pipeline/checks]."""
    known: int | None = None
    for row in rows:
        if row["kind"] != "group":
            continue
        epoch = None if row["is_tombstone"] else row["group_epoch"]
        if epoch is not None and known is not None and epoch <= known:
            yield Finding(
                "epochs_increase",
                ERROR,
                group_id,
                f"epoch {epoch} follows {known} at offset {row['log_offset']}",
            )
        known = epoch


def one_owner_of_an_epoch(group_id: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Find partitions that a member has while another one has them [pipeline/checks].

    What a member has yet to give up is its own.
    """
    owners: dict[_Place, str] = {}
    held: dict[str, tuple[int, set[_Place]]] = {}
    for row in rows:
        if row["kind"] == "group" and row["is_tombstone"]:
            owners, held = {}, {}
        if row["kind"] not in ("current_member", "member"):
            continue
        member, is_gone = row["member_id"], row["is_tombstone"]
        if row["kind"] == "member" and not is_gone:
            continue
        now = set() if is_gone else _places(row)
        for place in held.pop(member, (0, set()))[1] - now:
            if owners.get(place) == member:
                del owners[place]
        if is_gone:
            continue
        epoch = row["member_epoch"]
        for place in sorted(now):
            other = owners.get(place)
            if other is not None and other != member:
                # A Kafka refuses to load the first; compaction explains the second.
                is_proven = held[other][0] >= epoch
                yield Finding(
                    "one_owner_of_an_epoch",
                    ERROR if is_proven else WARNING,
                    group_id,
                    f"{place[0]}-{place[1]} was given to {member} at epoch {epoch}, while {other}"
                    f" had it at epoch {held[other][0]}, at offset {row['log_offset']}"
                    + ("" if is_proven else "; compaction may have removed a record in between"),
                )
            owners[place] = member
        held[member] = epoch, now


def members_behind_the_target(group_id: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Find members at a later epoch than that of the target [pipeline/checks]."""
    target: int | None = None
    for row in rows:
        if row["kind"] == "target":
            target = None if row["is_tombstone"] else row["target_epoch"]
            continue
        if row["kind"] != "current_member" or row["is_tombstone"] or target is None:
            continue
        if row["member_epoch"] > target:
            yield Finding(
                "members_behind_the_target",
                ERROR,
                group_id,
                f"{row['member_id']} was at epoch {row['member_epoch']} when the target was that of"
                f" epoch {target}, at offset {row['log_offset']}",
            )


def _places(row: Row) -> set[_Place]:
    """Return the partitions, or the active tasks, that a member has or has yet to give up."""
    partitions = (*(row["assigned"] or ()), *(row["pending_revocation"] or ()))
    tasks = (*(row.get("assigned_tasks") or ()), *(row.get("pending_tasks") or ()))
    return {(each["topic_id"], each["partition"]) for each in partitions} | {
        (each["subtopology"], each["partition"]) for each in tasks if each["role"] == ACTIVE
    }


EPOCH_RULES: tuple[Callable[[str, Sequence[Row]], Iterator[Finding]], ...] = (
    epochs_increase,
    one_owner_of_an_epoch,
    members_behind_the_target,
)


def check_epochs(group_id: str, rows: Sequence[Row]) -> list[Finding]:
    """Check one group's records.

    Args:
        group_id: the group.
        rows: its rows of `consumer_epochs`, in the order of the log.
    """
    # Members of a share group have partitions together.
    rules = [
        rule
        for rule in EPOCH_RULES
        if rule is not one_owner_of_an_epoch or not is_share_group(rows, ())
    ]
    return [finding for rule in rules for finding in rule(group_id, rows)]
