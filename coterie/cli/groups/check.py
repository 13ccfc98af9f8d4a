"""`coterie groups check`: what is wrong with groups, why, and what to do about it."""

from typing import NamedTuple

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, no_such_groups, require_owners
from coterie.cli.groups.looks import DEFAULT_INTERVAL_S, MAX_INTERVAL_S, looks_at
from coterie.cli.options import complete_groups, json_option
from coterie.cli.output import folded, note, print_json, print_line
from coterie.cli.values import Number, short_duration_ms
from coterie.client.cluster import Cluster
from coterie.client.group_description import SHARE_GROUP
from coterie.client.groups import list_groups
from coterie.client.health.checks import (
    CHECKS,
    NEED_JOURNAL,
    NEED_SHARE_STATE,
    NEED_TWO_LOOKS,
    Found,
    findings,
)
from coterie.client.health.finding import Finding, Severity, names_text
from coterie.client.health.observation import (
    CHECKED_TYPES,
    Look,
    Past,
    look_at,
    look_back,
    observe,
)
from coterie.client.names import counted
from coterie.client.share_state import NoShareState
from coterie.pipeline.findings.of_journal import journal_findings
from coterie.pipeline.live.share_record import delivery_findings

_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow"}
# The lines are for people; scripts use --json.
_WIDTH = 100
_INDENT = 4


class _Checked(NamedTuple):
    """What the checks found.

    Attributes:
        found: the findings, by group.
        with_journal: whether the broker keeps a journal.
        with_deliveries: whether it shows the states of share groups, if there are any.
    """

    found: list[Found]
    with_journal: bool
    with_deliveries: bool = True


@click.command("check")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, shell_complete=complete_groups)
@click.option("--all-groups", is_flag=True, help="Check every group of the cluster.")
@click.option(
    "--interval",
    "interval_s",
    type=Number(0, MAX_INTERVAL_S),
    default=DEFAULT_INTERVAL_S,
    show_default=True,
    metavar="SECONDS",
    help="The time between two looks, for lags and stalled members; 0 for one look only.",
)
@click.option(
    "--since",
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="How far back the history of the group is checked: 30m, 2h, 7d.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    type=click.Choice(list(CHECKS)),
    metavar="CHECK",
    help="Leave out this check; repeatable.",
)
@json_option
@broker_options
def command(
    *,
    group_ids: tuple[str, ...],
    all_groups: bool,
    interval_s: float,
    since: str,
    ignored: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check groups: each finding has its cause and a remedy.

    The group is looked at twice, so that lags that grow and members that do not commit are found.
    Expired sessions, fenced members and other events are found in the journal of a Coterie broker.

    The exit code is 0 if nothing was found, 1 if there are findings or a group could not be
    checked, and 2 if the command line is wrong.
    """
    if bool(group_ids) == all_groups:
        raise click.UsageError("Name groups, or use --all-groups.")
    period_ms = short_duration_ms(since)
    if period_ms is None:
        raise click.UsageError(f"Invalid value for --since: '{since}' is not like 30m, 2h or 7d.")
    with connected() as cluster:
        if all_groups:
            group_ids = tuple(each.group_id for each in list_groups(cluster, types=CHECKED_TYPES))
        checked = _check(cluster, group_ids, interval_s, period_ms, ignored)
    if as_json:
        print_json([each.row() for each in checked.found])
    else:
        _print(checked.found)
        _note_not_checked(checked, interval_s, ignored)
    if checked.found:
        raise CommandFailed(_summary(checked.found, len(group_ids)))
    if not as_json:
        note(f"Nothing found in {counted(len(group_ids), 'group')}.")


def _check(
    cluster: Cluster,
    group_ids: tuple[str, ...],
    interval_s: float,
    period_ms: int,
    ignored: tuple[str, ...],
) -> _Checked:
    """Look at the groups and check them.

    Raises:
        CommandFailed: a group does not exist.
    """
    before: list[Look] = []

    def look(earlier: Look | None) -> Look:
        before[:] = [] if earlier is None else [earlier]
        seen = look_at(cluster, group_ids)
        require_owners(seen.groups.values(), CHECKED_TYPES)
        missing = [each for each in group_ids if each not in seen.groups]
        if missing and earlier is None:
            raise no_such_groups(missing)
        return seen

    (last,) = looks_at(look, interval_s or None, watch=False)
    past, with_deliveries = _with_deliveries(
        cluster, last, look_back(cluster, period_ms, journal_findings)
    )
    # A group that was deleted between the looks has nothing to check.
    found = [
        each
        for group_id in last.groups
        for each in findings(observe(group_id, before[0] if before else None, last, past), ignored)
    ]
    return _Checked(found, past.facts is not None, with_deliveries)


def _with_deliveries(cluster: Cluster, look: Look, past: Past) -> tuple[Past, bool]:
    """Return the past with what is wrong with deliveries of share groups.

    The second value is False if the broker does not show them.
    """
    judged = {group_id: list(some) for group_id, some in past.judged.items()}
    for group_id, group in look.groups.items():
        if group.type != SHARE_GROUP:
            continue
        facts = (past.facts or {}).get(group_id, ())
        try:
            found = delivery_findings(cluster, group_id, facts, past.since_ms, past.now_ms)
        except NoShareState:
            return past, False
        judged[group_id] = [*judged.get(group_id, ()), *found]
    return past._replace(judged=judged), True


def _print(found: list[Found]) -> None:
    """Print the findings; what is the same of several groups is printed once."""
    for (check, finding), group_ids in _by_finding(found).items():
        severity, subject, cause, remedy = finding
        print_line(
            [
                (f"{severity:<8}", _STYLES[severity]),
                (names_text(group_ids), "bold"),
                (f"  {check}", ""),
                (f"  {subject}" if subject else "", "dim"),
            ]
        )
        for text in (cause, f"-> {remedy}"):
            for line in folded([(" " * _INDENT, ""), (text, "")], _WIDTH, _INDENT):
                print_line(line)


def _by_finding(found: list[Found]) -> dict[tuple[str, Finding], list[str]]:
    """Return the groups of each different finding, in the order of their first groups."""
    groups: dict[tuple[str, Finding], list[str]] = {}
    for each in found:
        groups.setdefault((each.check, each.finding), []).append(each.group_id)
    return groups


def _note_not_checked(checked: _Checked, interval_s: float, ignored: tuple[str, ...]) -> None:
    """Say which checks were not possible."""
    if not interval_s:
        names = [each for each in NEED_TWO_LOOKS if each not in ignored]
        note(f"Not checked without an --interval: {', '.join(names)}.")
    if not checked.with_journal:
        names = [each for each in NEED_JOURNAL if each not in ignored]
        note(f"Not checked, because the broker keeps no journal: {', '.join(names)}.")
    if not checked.with_deliveries:
        names = [each for each in NEED_SHARE_STATE if each not in ignored]
        note(f"Not checked, because the broker does not show share states: {', '.join(names)}.")


def _summary(found: list[Found], group_count: int) -> str:
    severities = [each.finding.severity for each in found]
    counts = [counted(severities.count(each), str(each)) for each in Severity if each in severities]
    groups = len({each.group_id for each in found})
    return f"{' and '.join(counts)} in {groups} of {counted(group_count, 'group')}."
