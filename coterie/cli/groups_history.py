"""`coterie groups history`: what happened to a group, who caused it and why, from the journal."""

import json
import re
import time
from datetime import UTC, datetime
from typing import Any

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.history_text import Timeline
from coterie.cli.names import complete_groups
from coterie.cli.output import Row, json_option, note, print_json, print_styled, printable
from coterie.cli.refusals import no_such_groups
from coterie.client.cluster import Cluster
from coterie.client.groups import describe_groups
from coterie.client.history import Journal, follow_history, journal_of, read_history
from coterie.client.resetting import duration_ms_of, timestamp_of
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_protocol import (
    TopicPartition,
    decode_assignment,
    decode_subscription,
)
from coterie.protocol.messages.journal_records import (
    FACT_NAMES,
    Fact,
    GenerationCompleted,
    GenerationMember,
    OffsetsExpired,
    RebalanceBegan,
)

# How long the broker keeps a request of --follow that finds nothing new.
_FOLLOW_WAIT_MS = 1_000

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SHORT_DURATION = re.compile(r"(\d+)([smhd])")


@click.command(short_help="Tell what happened to a group, and why.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--since",
    metavar="TIME",
    help="From then on: 30m, 2h or 7d ago, PT1H30M ago, or 2026-01-31T10:00:00, in UTC.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="The last N rebalances only, and what came after.",
)
@click.option("--follow", is_flag=True, help="Go on telling as things happen; Ctrl-C ends it.")
@json_option
@broker_options
def history(
    *, group_id: str, since: str | None, limit: int | None, follow: bool, as_json: bool
) -> None:
    """Tell what happened to a group: each rebalance, who caused it and why, how long its phases
    took, and who owns what since.

    The broker's journal has it: the topic coterie.journal, which Coterie keeps for a week unless
    told otherwise. With --json a row is a fact; together with --follow each stands on a line of
    its own.
    """
    since_ms = None if since is None else _since_ms(since)
    with connected() as cluster:
        journal = journal_of(cluster, group_id)
        found = read_history(cluster, journal, since_ms)
        shown = found.facts if limit is None else _last_rebalances(found.facts, limit)
        if not found.facts and not follow:
            _note_nothing(cluster, group_id, since)
        told = _Telling(group_id, as_json=as_json, lines=follow)
        told.tell(shown)
        _note_unknown(found.unknown)
        if follow:
            _follow(cluster, journal, found.next_offset, told)


class _Telling:
    """Prints facts as they come, in one of the three forms."""

    def __init__(self, group_id: str, *, as_json: bool, lines: bool) -> None:
        self._group_id = group_id
        self._as_json = as_json
        self._lines = lines
        self._timeline = Timeline()

    def tell(self, facts: list[Fact]) -> None:
        if not self._as_json:
            for line in self._timeline.lines(facts):
                print_styled(line)
            return
        rows = [_row(self._group_id, fact) for fact in facts]
        if not self._lines:
            print_json(rows)
            return
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))


def _follow(cluster: Cluster, journal: Journal, offset: int, told: _Telling) -> None:
    try:
        for found in follow_history(cluster, journal, offset, _FOLLOW_WAIT_MS):
            told.tell(found.facts)
            _note_unknown(found.unknown)
    except KeyboardInterrupt:
        # That is how one stops looking.
        return


def _note_nothing(cluster: Cluster, group_id: str, since: str | None) -> None:
    """There is nothing to tell.

    Raises:
        CommandFailed: because there is no such group.
    """
    if not describe_groups(cluster, [group_id])[group_id].exists:
        raise no_such_groups([group_id])
    when = "" if since is None else f" since {since}"
    note(f"Nothing has happened to group '{printable(group_id)}'{when} that the journal still has.")


def _note_unknown(count: int) -> None:
    if count:
        note(f"{count} facts are left out: they are of a newer Coterie than this one.")


def _since_ms(text: str) -> int:
    """Epoch milliseconds of a moment, or of so long ago.

    Raises:
        click.UsageError: it is neither.
    """
    now_ms = int(time.time() * 1000)
    short = _SHORT_DURATION.fullmatch(text.strip())
    if short is not None:
        return now_ms - int(short[1]) * _UNITS_MS[short[2]]
    try:
        return now_ms - duration_ms_of(text)
    except ValueError:
        pass
    try:
        return timestamp_of(text)
    except ValueError:
        raise click.UsageError(
            f"Invalid value for --since: '{text}' is neither a duration (30m, 2h, 7d, PT1H30M)"
            " nor a date and time (2026-01-31T10:00:00)."
        ) from None


def _last_rebalances(facts: list[Fact], count: int) -> list[Fact]:
    """The last `count` rebalances, each with who joined or went in the moment it began."""
    begins = [n for n, fact in enumerate(facts) if isinstance(fact, RebalanceBegan)]
    if not count:
        return []
    if len(begins) < count:
        return facts
    first = begins[-count]
    while first and facts[first - 1].at_ms == facts[first].at_ms:
        first -= 1
    return facts[first:]


def _row(group_id: str, fact: Fact) -> Row:
    """A fact with stable keys; what consumers put into opaque bytes is opened."""
    at = datetime.fromtimestamp(fact.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    row: Row = {"group": group_id, "at": at, "event": FACT_NAMES[type(fact)]}
    row |= {name: getattr(fact, name) for name in fact.fields_}
    if isinstance(fact, GenerationCompleted):
        consumers = fact.protocol_type == "consumer"
        row["members"] = [_member_row(member, consumers=consumers) for member in fact.members]
    elif isinstance(fact, OffsetsExpired):
        row["topics"] = {
            each.topic: {str(part.partition): part.committed_offset for part in each.partitions}
            for each in fact.topics
        }
    return row


def _member_row(member: GenerationMember, *, consumers: bool) -> Row:
    row: Row = {name: getattr(member, name) for name in member.fields_}
    row["subscription"] = _opened(member.subscription, _subscription, readable=consumers)
    row["assignment"] = _opened(member.assignment, _assignment, readable=consumers)
    return row


def _opened(data: bytes, read: Any, *, readable: bool) -> Any:
    """What bytes say; where that can't be told, the bytes in hexadecimal."""
    if readable and data:
        try:
            return read(data)
        except MalformedFrame:
            pass
    return data.hex()


def _subscription(data: bytes) -> Row:
    found = decode_subscription(data)
    return {"topics": sorted(found.topics), "owned": _by_topic(found.owned_partitions)}


def _assignment(data: bytes) -> Row:
    return _by_topic(decode_assignment(data).assigned_partitions)


def _by_topic(partitions: list[TopicPartition]) -> Row:
    return {each.topic: sorted(each.partitions) for each in sorted(partitions, key=_topic)}


def _topic(each: TopicPartition) -> str:
    return each.topic
