"""`coterie groups history`: what happened to a group, who caused it and why, from the journal."""

import json
import time

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import no_such_groups
from coterie.cli.groups.journal_events import JournalEvents
from coterie.cli.options import complete_groups, json_option
from coterie.cli.output import note, print_json, print_line, printable
from coterie.cli.timeline import Timeline
from coterie.cli.values import NATURAL, short_duration_ms
from coterie.client.cluster import Cluster
from coterie.client.fact_rows import fact_row
from coterie.client.groups import describe_groups
from coterie.client.history import Journal, follow_history, journal_of, read_history
from coterie.client.names import counted
from coterie.client.resetting import duration_ms_of, timestamp_of
from coterie.protocol.messages.journal_records import (
    Fact,
    RebalanceBegan,
)

# With --follow: how long the broker may delay the response to a Fetch that finds nothing new.
_FOLLOW_WAIT_MS = 1_000


@click.command("history")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--since",
    metavar="TIME",
    help="Start at this time: 30m, 2h or 7d ago, PT1H30M ago, or 2026-01-31T10:00:00 in UTC.",
)
@click.option(
    "--limit",
    type=NATURAL,
    metavar="N",
    help="Show only the last N rebalances and what came after.",
)
@click.option(
    "--rebalances",
    is_flag=True,
    help="Show one entry a rebalance, also from the group log, which any Kafka has.",
)
@click.option("--follow", is_flag=True, help="Keep printing new events until Ctrl-C.")
@json_option
@broker_options
def command(
    *,
    group_id: str,
    since: str | None,
    limit: int | None,
    rebalances: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Show what happened to a group: each rebalance with its cause, the duration of its phases, and
    the partitions of each member afterwards.

    The source is the broker's journal, the topic coterie.journal, which Coterie keeps for a week by
    default. With --json there is one object for each fact of the journal; with --json and --follow
    each object is a line of its own.

    With --rebalances it shows what the console and `coterie pipeline show` do: each rebalance with
    its cause, who caused it, its phases, the time without owner and what moved. On another Kafka it
    follows from the group log, __consumer_offsets.
    """
    if rebalances:
        if since is not None or follow:
            raise click.UsageError("--rebalances can't be used with --since or --follow.")
        _print_rebalances(group_id, limit, as_json=as_json)
        return
    since_ms = None if since is None else _since_ms(since)
    with connected() as cluster:
        journal = journal_of(cluster, group_id)
        found = read_history(cluster, journal, since_ms)
        shown = found.facts if limit is None else _last_rebalances(found.facts, limit)
        if not found.facts and not follow:
            _note_no_facts(cluster, group_id, since)
        printer = _Printer(group_id, as_json=as_json, one_line_each=follow)
        if since_ms is not None and not as_json:
            # What a line says depends on the facts before it [terminal/timelines].
            printer.pass_over(_before(read_history(cluster, journal).facts, found.facts))
        printer.pass_over(found.facts[: len(found.facts) - len(shown)])
        printer.print(shown)
        _note_unknown(found.unknown)
        if follow:
            _follow(cluster, journal, found.next_offset, printer)


def _print_rebalances(group_id: str, limit: int | None, *, as_json: bool) -> None:
    # Imported here, because the facts of a journal are printed without the pipeline.
    from coterie.cli.pipeline.printed_stories import print_stories
    from coterie.cli.pipeline.rebalance_stories import rebalance_stories
    from coterie.pipeline.live.group_record import GroupRecord
    from coterie.pipeline.report.history import story_of

    with connected() as cluster:
        record = GroupRecord(group_id)
        has_history = record.read(cluster)
        if not has_history and not describe_groups(cluster, [group_id])[group_id].exists:
            raise no_such_groups([group_id])
        story = story_of(record.history(cluster))
    stories = rebalance_stories(story.group.tables, story.moves, story.generations)
    print_stories(group_id, stories, limit, as_json=as_json)


class _Printer:
    """Prints facts as a timeline, as a JSON list, or as JSON lines."""

    def __init__(self, group_id: str, *, as_json: bool, one_line_each: bool) -> None:
        self._group_id = group_id
        self._as_json = as_json
        self._one_line_each = one_line_each
        self._events = JournalEvents()
        self._timeline = Timeline()

    def pass_over(self, facts: list[Fact]) -> None:
        """Take facts into account that are not printed."""
        for fact in facts:
            self._events.event(fact)

    def print(self, facts: list[Fact]) -> None:
        if not self._as_json:
            for fact in facts:
                for line in self._timeline.lines(self._events.event(fact)):
                    print_line(line)
            return
        rows = [fact_row(self._group_id, fact) for fact in facts]
        if not self._one_line_each:
            print_json(rows)
            return
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))


def _follow(cluster: Cluster, journal: Journal, offset: int, printer: _Printer) -> None:
    try:
        for found in follow_history(cluster, journal, offset, _FOLLOW_WAIT_MS):
            printer.print(found.facts)
            _note_unknown(found.unknown)
    except KeyboardInterrupt:
        # The documented way to end the command, and no error.
        return


def _note_no_facts(cluster: Cluster, group_id: str, since: str | None) -> None:
    """Print that the journal has nothing about the group.

    Raises:
        CommandFailed: the group does not exist.
    """
    if not describe_groups(cluster, [group_id])[group_id].exists:
        raise no_such_groups([group_id])
    when = "" if since is None else f" since {since}"
    note(f"The journal has nothing about group '{printable(group_id)}'{when}.")


def _note_unknown(count: int) -> None:
    if count:
        facts = counted(count, "fact", "is", "are")
        note(f"{facts} left out: written by a newer release of Coterie.")


def _since_ms(text: str) -> int:
    """Return epoch milliseconds of a time, or of a duration before now.

    Raises:
        click.UsageError: the text is neither.
    """
    now_ms = int(time.time() * 1000)
    short_ms = short_duration_ms(text)
    if short_ms is not None:
        return now_ms - short_ms
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


def _before(every: list[Fact], shown: list[Fact]) -> list[Fact]:
    """Return the facts before the first one that is shown."""
    first = every.index(shown[0]) if shown and shown[0] in every else len(every)
    return every[:first]


def _last_rebalances(facts: list[Fact], count: int) -> list[Fact]:
    """Return the facts from the beginning of the last `count` rebalances on.

    Facts of the same millisecond before that beginning are included: they say who joined or left.
    """
    begins = [n for n, fact in enumerate(facts) if isinstance(fact, RebalanceBegan)]
    if not count:
        return []
    if len(begins) < count:
        return facts
    first = begins[-count]
    while first and facts[first - 1].at_ms == facts[first].at_ms:
        first -= 1
    return facts[first:]
