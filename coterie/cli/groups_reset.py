"""`coterie groups reset-offsets`: plan where an inactive group reads next, and commit the plan."""

import csv
import io
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

import click

from coterie.cli.broker import CommandFailed, broker_options, connected
from coterie.cli.names import group_option, topic_option
from coterie.cli.output import (
    Column,
    Row,
    json_option,
    note,
    print_json,
    print_table,
    printable,
)
from coterie.cli.refusals import live_members
from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import error_name
from coterie.client.groups import describe_groups
from coterie.client.offsets import commit_offsets, committed_offsets
from coterie.client.resetting import (
    PlannedOffset,
    Rule,
    duration_ms_of,
    plan,
    plan_by_time,
    resolve_partitions,
    shift_by,
    timestamp_of,
    to_current,
    to_earliest,
    to_given,
    to_latest,
    to_offset,
)

_COLUMNS = [
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", 10),
    Column("NEW-OFFSET", "new_offset"),
]


class Target(NamedTuple):
    """Where to: how to plan for some partitions; `offsets` when a file names partitions itself."""

    plan: Callable[[Cluster, str, list[TopicPartition]], list[PlannedOffset]]
    offsets: dict[TopicPartition, int] | None = None


@click.command("reset-offsets", short_help="Plan or commit other offsets for a group.")
@group_option
@topic_option(required=False, about="A topic, or some of its partitions; repeatable.")
@click.option("--all-topics", is_flag=True, help="All partitions the group has committed.")
@click.option("--to-earliest", is_flag=True, help="The first record that is still there.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option("--to-current", is_flag=True, help="Where the group is.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="This offset.")
@click.option("--shift-by", type=int, metavar="N", help="N records on; back if negative.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="The first record of this time or later: 2026-01-31T10:00:00.000, in UTC.",
)
@click.option("--by-duration", metavar="DURATION", help="As to-datetime, so long ago: PT1H30M.")
@click.option(
    "--from-file",
    type=click.File(encoding="utf-8"),
    metavar="CSV",
    help="Lines of topic,partition,offset, as --export prints them; - for standard input.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be committed (the default).")
@click.option("--execute", is_flag=True, help="Commit it.")
@click.option("--export", is_flag=True, help="Print topic,partition,offset lines, no table.")
@json_option
@broker_options
def reset_offsets(
    *,
    group_id: str,
    scopes: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    export: bool,
    as_json: bool,
    **where: Any,
) -> None:
    """Plan where a group without members reads next, and commit it with --execute."""
    target = _target(group_id, where)
    if [bool(scopes), all_topics, target.offsets is not None].count(True) != 1:
        raise click.UsageError("Say which partitions: --topic, --all-topics, or --from-file.")
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute exclude each other.")
    errors: dict[TopicPartition, int] = {}
    with connected() as cluster:
        _require_inactive(cluster, group_id)
        partitions = _partitions(cluster, group_id, scopes, target)
        planned = target.plan(cluster, group_id, partitions)
        if execute:
            new = {step.partition: step.new for step in planned}
            errors = commit_offsets(cluster, group_id, new)
    _print(group_id, planned, errors, export=export, as_json=as_json)
    failed = {partition: error for partition, error in errors.items() if error}
    if failed:
        raise CommandFailed(
            "\n".join(
                f"{_text(part)} is as it was: {error_name(e)}." for part, e in failed.items()
            ),
            "If members joined meanwhile, stop them: `coterie groups describe --members`.",
        )
    if not execute:
        note("Dry run: nothing is changed. Add --execute to commit these offsets.")


def _target(group_id: str, where: dict[str, Any]) -> Target:
    """What the options say about where to.

    Raises:
        click.UsageError: none or several of them, or a value of no known form.
    """
    given = [name for name, value in where.items() if value is not None and value is not False]
    if len(given) != 1:
        raise click.UsageError(f"Say where to, with one of {', '.join(map(_option, where))}.")
    (name,) = given
    value = where[name]
    try:
        match name:
            case "to_datetime":
                return _at_time(timestamp_of(value))
            case "by_duration":
                return _at_time(int(time.time() * 1000) - duration_ms_of(value))
            case "from_file":
                offsets = _read_csv(group_id, value)
                return _by_rule(to_given(offsets))._replace(offsets=offsets)
            case "to_offset":
                return _by_rule(to_offset(value))
            case "shift_by":
                return _by_rule(shift_by(value))
    except ValueError as error:
        raise click.UsageError(f"Invalid value for {_option(name)}: {error}.") from error
    simple = {"to_earliest": to_earliest, "to_latest": to_latest, "to_current": to_current}
    return _by_rule(simple[name])


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _by_rule(rule: Rule) -> Target:
    return Target(lambda cluster, group_id, parts: plan(cluster, group_id, parts, rule))


def _at_time(timestamp_ms: int) -> Target:
    return Target(
        lambda cluster, group_id, parts: plan_by_time(cluster, group_id, parts, timestamp_ms)
    )


def _read_csv(group_id: str, file: TextIO) -> dict[TopicPartition, int]:
    """Lines of topic,partition,offset; Kafka's form for many groups has the group in front.

    Raises:
        ValueError: a line is of neither form, or none is about this group.
    """
    offsets: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(file), 1):
        if not row:
            continue
        try:
            topic, partition, offset = row[-3:]
            about = (topic.strip(), int(partition)), int(offset)
        except ValueError as error:
            raise ValueError(f"line {number} is not topic,partition,offset") from error
        if row[:-3] in ([], [group_id]):
            offsets[about[0]] = about[1]
    if not offsets:
        raise ValueError(f"no line is about group {group_id!r}")
    return offsets


def _require_inactive(cluster: Cluster, group_id: str) -> None:
    """Refuse a group with members; one that is not there yet may get its first offsets."""
    group = describe_groups(cluster, [group_id])[group_id]
    if group.exists and group.state != "Empty":
        raise CommandFailed(
            f"Group '{printable(group_id)}' is {group.state}: {live_members(group)}.",
            "Offsets can be reset while a group has no members only: stop them first.",
        )


def _partitions(
    cluster: Cluster, group_id: str, scopes: tuple[str, ...], target: Target
) -> list[TopicPartition]:
    if target.offsets is not None:
        scopes = tuple(f"{topic}:{index}" for topic, index in target.offsets)
    if scopes:
        return resolve_partitions(cluster, scopes)
    partitions = sorted(committed_offsets(cluster, group_id))
    if not partitions:
        raise CommandFailed(
            f"Group '{printable(group_id)}' has committed nothing: there are no topics to reset.",
            "Name some with --topic, or correct the name: `coterie groups list`.",
        )
    return partitions


def _print(
    group_id: str,
    planned: list[PlannedOffset],
    errors: dict[TopicPartition, int],
    *,
    export: bool,
    as_json: bool,
) -> None:
    rows: list[Row] = [
        {
            "group": group_id,
            "topic": step.partition[0],
            "partition": step.partition[1],
            "current_offset": step.current,
            "new_offset": step.new,
            "committed": errors.get(step.partition) == 0,
            "remark": step.remark,
        }
        for step in planned
    ]
    if as_json:
        print_json(rows)
    elif export:
        text = io.StringIO()
        lines = ((*step.partition, step.new) for step in planned)
        csv.writer(text, lineterminator="\n").writerows(lines)
        click.echo(text.getvalue(), nl=False)
    else:
        print_table(_COLUMNS, rows)
    for step in planned:
        if step.remark:
            note(f"{_text(step.partition)}: {step.remark}, so the new offset is {step.new}.")


def _text(partition: TopicPartition) -> str:
    return f"{printable(partition[0])}-{partition[1]}"
