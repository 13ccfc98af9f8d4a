"""`coterie groups reset-offsets`: plan new offsets for a group without members, and commit them."""

import csv
import io
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, live_members_text
from coterie.cli.options import complete_groups, group_option, json_option, topic_option
from coterie.cli.output import (
    NOTHING,
    Column,
    Row,
    is_for_people,
    note,
    print_json,
    print_table,
    printable,
)
from coterie.cli.values import LONG, LONG_NATURAL
from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import error_name
from coterie.client.group_description import SHARE_GROUP, GroupDescription
from coterie.client.groups import describe_groups
from coterie.client.offsets import commit_offsets
from coterie.client.resetting import (
    PlannedOffset,
    Rule,
    current_offsets,
    duration_ms_of,
    offsets_to_clone,
    plan,
    plan_by_time,
    planned_row,
    resolve_partitions,
    shift_by,
    timestamp_of,
    to_current,
    to_earliest,
    to_given,
    to_latest,
    to_offset,
)
from coterie.client.share_groups import alter_start_offsets


def _signed(difference: int | None) -> str:
    return NOTHING if difference is None else f"{difference:+,}"


_COLUMNS = [
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", 10),
    Column("NEW-OFFSET", "new_offset"),
]
# On a terminal. In a pipe the columns are those of Kafka's tool.
_COLUMNS_FOR_PEOPLE = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("CURRENT-OFFSET", "current_offset", short="CURRENT", number=True),
    Column("NEW-OFFSET", "new_offset", short="NEW", number=True),
    Column("DIFFERENCE", "difference", text=_signed, number=True),
]


class _Target(NamedTuple):
    """The wanted offsets.

    Attributes:
        plan: plans the new offsets of some partitions, of the offsets that a group has.
        offsets: the content of --from-file, or the offsets of --from-group. They name the
            partitions too.
    """

    plan: Callable[[Cluster, dict[TopicPartition, int], list[TopicPartition]], list[PlannedOffset]]
    offsets: dict[TopicPartition, int] | None = None


@click.command("reset-offsets")
@group_option
@topic_option(required=False, description="Topic, or partitions of it; repeatable.")
@click.option("--all-topics", is_flag=True, help="All partitions for which the group has offsets.")
@click.option("--to-earliest", is_flag=True, help="Reset to the first available record.")
@click.option("--to-latest", is_flag=True, help="Reset to the end of the log.")
@click.option("--to-current", is_flag=True, help="Keep the committed offsets (for --export).")
@click.option("--to-offset", type=LONG_NATURAL, metavar="N", help="Reset to offset N.")
@click.option(
    "--shift-by", type=LONG, metavar="N", help="Move by N records; backwards if N is negative."
)
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="Reset to the first record at or after this time: 2026-01-31T10:00:00.000, in UTC.",
)
@click.option(
    "--by-duration",
    metavar="DURATION",
    help="Reset to the first record at or after this long ago: PT1H30M.",
)
@click.option(
    "--from-file",
    type=click.File(encoding="utf-8"),
    metavar="CSV",
    help="Read topic,partition,offset lines as printed by --export; - is standard input.",
)
@click.option(
    "--from-group",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Clone the committed offsets of this group, of all its topics or of --topic.",
)
@click.option("--dry-run", is_flag=True, help="Only show the new offsets (the default).")
@click.option("--execute", is_flag=True, help="Commit the new offsets.")
@click.option(
    "--export", is_flag=True, help="Print topic,partition,offset lines instead of a table."
)
@json_option
@broker_options
def command(
    *,
    group_id: str,
    scopes: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    export: bool,
    as_json: bool,
    **targets: Any,
) -> None:
    """Show new offsets for a group that has no members, and commit them with --execute.

    Choose the partitions with --topic, --all-topics or --from-file. Choose the new offsets with one
    of --to-*, --shift-by, --by-duration, --from-file and --from-group. --from-group needs no
    choice of partitions: it takes those for which that group has committed offsets. Nothing is
    changed without --execute. An offset outside a partition is moved to its nearest end. A share
    group gets start offsets, and loses the state of single records.
    """
    name, value = _chosen(targets)
    source = value if name == "from_group" else None
    target = None if source else _target(group_id, name, value)
    _check_scope(scopes, all_topics=all_topics, target=target)
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute exclude each other.")
    if source == group_id:
        raise click.UsageError("--group and --from-group name the same group.")
    errors: dict[TopicPartition, int] = {}
    with connected() as cluster:
        group = _without_members(cluster, group_id)
        if target is None:
            target, scopes = _given(_clone(cluster, value, scopes)), ()
        current = current_offsets(cluster, group)
        partitions = _partitions(cluster, group_id, scopes, target, current)
        planned = target.plan(cluster, current, partitions)
        if execute:
            new = {each.partition: each.new for each in planned}
            is_shared = group.type == SHARE_GROUP
            errors = (alter_start_offsets if is_shared else commit_offsets)(cluster, group_id, new)
    _print(group_id, planned, errors, export=export, as_json=as_json)
    failed = {partition: error for partition, error in errors.items() if error}
    if failed:
        raise CommandFailed(
            "\n".join(
                f"The offset of {_name(partition)} was not changed: {error_name(error)}."
                for partition, error in failed.items()
            ),
            "If members have joined in the meantime, stop them;"
            " `coterie groups describe --members` lists them.",
        )
    if not execute:
        note("Dry run: nothing was changed. Add --execute to commit these offsets.")


def _chosen(targets: dict[str, Any]) -> tuple[str, Any]:
    """Return the name and the value of the option that chooses the new offsets.

    Raises:
        click.UsageError: there is no such option or more than one.
    """
    given = [name for name, value in targets.items() if value is not None and value is not False]
    if len(given) != 1:
        options = ", ".join(map(_option, targets))
        raise click.UsageError(f"Choose the new offsets with one of {options}.")
    return given[0], targets[given[0]]


def _target(group_id: str, name: str, value: Any) -> _Target:
    """Return the target that an option names.

    Raises:
        click.UsageError: the value of the option is invalid.
    """
    try:
        match name:
            case "to_datetime":
                return _at_time(timestamp_of(value))
            case "by_duration":
                return _at_time(int(time.time() * 1000) - duration_ms_of(value))
            case "from_file":
                return _given(_read_csv(group_id, value))
            case "to_offset":
                return _by_rule(to_offset(value))
            case "shift_by":
                return _by_rule(shift_by(value))
    except ValueError as error:
        raise click.UsageError(f"Invalid value for {_option(name)}: {error}.") from error
    flags = {"to_earliest": to_earliest, "to_latest": to_latest, "to_current": to_current}
    return _by_rule(flags[name])


def _check_scope(scopes: tuple[str, ...], *, all_topics: bool, target: _Target | None) -> None:
    """Refuse options that name no partitions, or name them twice; without a target: a clone."""
    if target is None:
        if all_topics:
            raise click.UsageError(
                "--from-group takes all topics of that group; restrict them with --topic."
            )
    elif [bool(scopes), all_topics, target.offsets is not None].count(True) != 1:
        raise click.UsageError("Choose partitions with one of --topic, --all-topics, --from-file.")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _given(offsets: dict[TopicPartition, int]) -> _Target:
    return _by_rule(to_given(offsets))._replace(offsets=offsets)


def _by_rule(rule: Rule) -> _Target:
    return _Target(lambda cluster, current, parts: plan(cluster, current, parts, rule))


def _at_time(timestamp_ms: int) -> _Target:
    return _Target(
        lambda cluster, current, parts: plan_by_time(cluster, current, parts, timestamp_ms)
    )


def _read_csv(group_id: str, file: TextIO) -> dict[TopicPartition, int]:
    """Read lines of topic,partition,offset, or of group,topic,partition,offset.

    The second form is that of Kafka's tool for several groups; lines of other groups are skipped.

    Raises:
        ValueError: a line has neither form, or there is no line for this group.
    """
    offsets: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(file), 1):
        if not row:
            continue
        try:
            topic, partition, offset = row[-3:]
            entry = (topic.strip(), int(partition)), int(offset)
        except ValueError as error:
            raise ValueError(f"line {number} is not topic,partition,offset") from error
        if row[:-3] in ([], [group_id]):
            offsets[entry[0]] = entry[1]
    if not offsets:
        raise ValueError(f"there is no line for group {group_id!r}")
    return offsets


def _clone(cluster: Cluster, source: str, scopes: tuple[str, ...]) -> dict[TopicPartition, int]:
    """Return the committed offsets of another group, of some partitions or of all.

    Raises:
        CommandFailed: there are none.
    """
    wanted = set(resolve_partitions(cluster, scopes)) if scopes else None
    clone = offsets_to_clone(cluster, source, wanted)
    for partition in clone.without_partition:
        note(f"{_name(partition)}: the partition does not exist any more, so it is left out.")
    if not clone.offsets:
        where = " for these partitions" if scopes else ""
        raise CommandFailed(
            f"Group '{printable(source)}' has no committed offsets{where}.",
            f"`coterie groups describe {printable(source)}` shows its offsets, and"
            " `coterie groups list` the existing groups.",
        )
    return clone.offsets


def _without_members(cluster: Cluster, group_id: str) -> GroupDescription:
    """Return a group without members; one that does not exist can get its first offsets.

    Raises:
        CommandFailed: the group has members.
    """
    group = describe_groups(cluster, [group_id])[group_id]
    if group.exists and group.state != "Empty":
        raise CommandFailed(
            f"Group '{printable(group_id)}' is {group.state}: {live_members_text(group)}.",
            "Offsets can only be reset while a group has no members. "
            + (
                "Static members are removed when their sessions end."
                if all(member.has_left for member in group.members)
                else "Stop them first."
            ),
        )
    return group


def _partitions(
    cluster: Cluster,
    group_id: str,
    scopes: tuple[str, ...],
    target: _Target,
    current: dict[TopicPartition, int],
) -> list[TopicPartition]:
    if target.offsets is not None:
        scopes = tuple(f"{topic}:{index}" for topic, index in target.offsets)
    if scopes:
        return resolve_partitions(cluster, scopes)
    if not current:
        raise CommandFailed(
            f"Group '{printable(group_id)}' has no offsets, so --all-topics selects nothing.",
            "Name topics with --topic, or check the name: `coterie groups list`.",
        )
    return sorted(current)


def _print(
    group_id: str,
    planned: list[PlannedOffset],
    errors: dict[TopicPartition, int],
    *,
    export: bool,
    as_json: bool,
) -> None:
    rows: list[Row] = [
        planned_row(group_id, each, committed=errors.get(each.partition) == 0) for each in planned
    ]
    if as_json:
        print_json(rows)
    elif export:
        text = io.StringIO()
        lines = ((*each.partition, each.new) for each in planned)
        csv.writer(text, lineterminator="\n").writerows(lines)
        click.echo(text.getvalue(), nl=False)
    else:
        for row in rows:
            current = row["current_offset"]
            row["difference"] = None if current is None else row["new_offset"] - current
        print_table(_COLUMNS_FOR_PEOPLE if is_for_people() else _COLUMNS, rows)
    for each in planned:
        if each.remark:
            note(f"{_name(each.partition)}: {each.remark}, so the new offset is {each.new}.")


def _name(partition: TopicPartition) -> str:
    topic, index = partition
    return f"{printable(topic)}-{index}"
