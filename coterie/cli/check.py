"""`coterie check HOST:PORT`: does that broker behave as Kafka does?

Exit code 0: every check that applies passed. 1: some deviate or fail. 2: the command line is wrong,
no broker can be checked at the address, or a check has itself failed. 3: the broker stopped
listening during the run.
"""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.live import Live

from coterie.address import Address
from coterie.cli.broker import command_config, security_of_command
from coterie.cli.options import json_option
from coterie.cli.output import Row, print_checks
from coterie.cli.values import AT_ONCE, OutputFile
from coterie.client.errors import ClientError
from coterie.client.names import counted
from coterie.conformance.checks.registry import all_checks, selected
from coterie.conformance.checks.runner import PARALLEL, PREFIX, CheckOutcome, Options, Run
from coterie.conformance.checks.text import Board, alike, print_alike, print_stop, skips_by_reason
from coterie.conformance.over_tcp.connection import RefusedError
from coterie.conformance.over_tcp.diagnosis import find_obstacle
from coterie.conformance.over_tcp.target import Target
from coterie.conformance.releases import (
    Release,
    parse_release,
    release_text,
    resembled_release,
)
from coterie.conformance.results import (
    CANNOT_CHECK,
    Status,
    as_json,
    as_junit,
    counts,
    exit_code,
)
from coterie.server.operating_system import on_signals

if TYPE_CHECKING:
    from coterie.conformance.checks.check import Check

_BAD = (Status.DEVIATES, Status.FAILS)
_STOPPED = 3
# As shells report a process that SIGTERM has ended.
_TERMINATED = 128 + signal.SIGTERM
_SUITE = "coterie check"


class _CannotCheckError(click.ClickException):
    """No broker can be checked: exit code 2 and one sentence."""

    exit_code = CANNOT_CHECK


@click.command()
@click.argument("address", metavar="HOST:PORT", required=False)
@click.option("--only", multiple=True, metavar="PATTERN", help="Checks of this area, API or name.")
@click.option("--except", "without", multiple=True, metavar="PATTERN", help="Leave out these.")
@click.option("--list", "as_list", is_flag=True, help="Print the checks and run none.")
@click.option(
    "--kafka-version", metavar="RELEASE", help="Expect what this release of Kafka does: 2.8."
)
@click.option("--thorough", is_flag=True, help="Run the checks with long waits, too.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option(
    "--prefix",
    metavar="PREFIX",
    default=PREFIX,
    show_default=True,
    help="How every name begins that the checks create.",
)
@click.option(
    "--parallel",
    type=AT_ONCE,
    metavar="N",
    default=PARALLEL,
    show_default=True,
    help="Checks at once.",
)
@click.option("--junit", type=OutputFile(), help="Write JUnit XML.")
@click.option("--html", type=OutputFile(), help="Write one page.")
@click.option(
    "--compare",
    nargs=2,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="A.json B.json",
    help="Show two results of --json side by side; with --html as a page.",
)
@command_config
@json_option
def command(address: str | None, *, as_json: bool, **options: Any) -> None:
    """Check a broker against Kafka's behaviour.

    The checks run side by side and take about a minute. They create topics and groups whose names
    begin with --prefix, touch nothing else, and remove them at the end.
    """
    if options["compare"]:
        first, second = options["compare"]
        _compare(first, second, options["html"])
        return
    without = selected(all_checks(), options["without"]) if options["without"] else ()
    checks = tuple(each for each in selected(all_checks(), options["only"]) if each not in without)
    if not checks:
        raise click.UsageError(f"--only {' '.join(options['only'])}: no check fits; see --list.")
    release = _release(options["kafka_version"])
    if options["as_list"]:
        print_checks([_row(each) for each in checks], as_json=as_json)
        return
    if address is None:
        raise click.UsageError("Missing argument 'HOST:PORT'.")
    try:
        where = Address.parse(address)
    except ValueError as error:
        raise click.UsageError(f"Invalid value for 'HOST:PORT': {error}.") from error
    try:
        target = Target(where, security_of_command(click.get_current_context()))
        code = asyncio.run(_check(target, checks, release, options, as_json=as_json))
    except asyncio.CancelledError:
        code = _TERMINATED
    sys.exit(code)


def _release(text: str | None) -> Release | None:
    if text is None:
        return None
    try:
        return parse_release(text)
    except ValueError as error:
        raise click.UsageError(f"Invalid value for '--kafka-version': {error}.") from error


def _row(check: "Check") -> Row:
    return {
        "name": check.name,
        "area": check.area,
        "api": check.api,
        "versions": list(check.versions),
        "sentence": check.sentence,
        "source": check.source,
    }


async def _check(
    target: Target,
    checks: tuple["Check", ...],
    release: Release | None,
    options: dict[str, Any],
    *,
    as_json: bool,
) -> int:
    """Connect, run, report; return the exit code."""
    running = asyncio.current_task()
    assert running is not None
    # A run that is ended early removes what it has created, too.
    on_signals(["SIGTERM"], running.cancel)
    where = target.address
    obstacle = await find_obstacle(where, target.security.context)
    if obstacle:
        raise _CannotCheckError(obstacle)
    try:
        await target.open()
        expected = release or resembled_release(target.versions)
        wanted = Options(expected, options["thorough"], options["parallel"], options["prefix"])
        run = Run(target, wanted)
        if options["dry_run"]:
            _print_plan(run, checks)
            return 0
        began_s = time.monotonic()
        outcomes = await _run(run, checks, quiet=as_json)
        seconds = time.monotonic() - began_s
    except (OSError, TimeoutError, ValueError, RefusedError, ClientError) as error:
        text = str(error) or "it does not answer"
        raise _CannotCheckError(f"The broker at {where} cannot be checked: {text}.") from error
    finally:
        await target.close()
    about = {
        "broker": str(where),
        "kafka_version": release_text(expected),
        "seconds": round(seconds, 1),
        "leftovers": run.leftovers,
        "stopped": None if run.stop is None else run.stop.as_json,
    }
    _report(outcomes, about, options, as_json=as_json)
    if run.stop is not None:
        return _STOPPED
    return exit_code([each.result for each in outcomes], _BAD)


def _print_plan(run: Run, checks: tuple["Check", ...]) -> None:
    """Print what a run would do."""
    ready, skipped = run.plan(checks)
    topics = sum(len(each.topics) for each in ready)
    longest_s = max((each.waits_ms for each in ready), default=0) / 1000
    click.echo(
        f"{counted(len(ready), 'check')} would run, {len(skipped)} would be skipped. They create"
        f" about {counted(topics, 'topic')} and the groups they need, all named"
        f" {run.options.prefix}*, and remove them at the end. The longest waits for"
        f" {longest_s:.0f} s."
    )
    for outcome in skipped:
        click.echo(f"skipped  {outcome.check.name}: {outcome.reason}")


async def _run(run: Run, checks: tuple["Check", ...], *, quiet: bool) -> list[CheckOutcome]:
    """Run the checks, on a terminal with a table that grows."""
    console = Console(stderr=True)
    outcomes: list[CheckOutcome] = []
    board = Board(checks, console)

    def done(outcome: CheckOutcome) -> None:
        outcomes.append(outcome)
        board.add(outcome)

    if quiet or not console.is_terminal:
        await run.all(checks, done)
    else:
        with Live(board, console=console, transient=True, refresh_per_second=4):
            await run.all(checks, done)
    order = {check.name: number for number, check in enumerate(checks)}
    return sorted(outcomes, key=lambda each: order[each.check.name])


def _report(
    outcomes: list[CheckOutcome], about: dict[str, Any], options: dict[str, Any], *, as_json: bool
) -> None:
    results = [each.result for each in outcomes]
    if options["junit"]:
        stopped = about["stopped"] or {"sentence": "", "last_sent": []}
        error = "\n".join([stopped["sentence"], *stopped["last_sent"]])
        text = as_junit(results, _SUITE, _BAD, error=error)
        options["junit"].write_text(text, encoding="utf-8")
    data = _data(outcomes, about)
    if options["html"]:
        from coterie.conformance.checks.page import page

        options["html"].write_text(page([data]), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(data, indent=2))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    groups = alike(each for each in outcomes if each.status in _BAD)
    failed_checks = alike(each for each in outcomes if each.status is Status.ERROR)
    for group in (*groups, *failed_checks):
        print_alike(console, group)
    board = Board((each.check for each in outcomes), console)
    for outcome in outcomes:
        board.add(outcome)
    console.print()
    console.print(board.table())
    reasons = skips_by_reason(outcomes)
    if reasons:
        console.print("\nskipped because")
        for reason, count in reasons:
            console.print(f"  {count:4}  {reason}", highlight=False, markup=False)
    totals = ", ".join(f"{count} {status}" for status, count in counts(results).items())
    bad = sum(map(len, groups))
    if len(groups) < bad:
        console.print(
            f"\n{bad} checks deviate or fail, {len(groups)} in different ways; --json and --html"
            " have the conversation of each.",
            highlight=False,
        )
    console.print(
        f"\n{about['broker']}, as Kafka {about['kafka_version']}: {counted(len(results), 'check')},"
        f" {totals}, in {about['seconds']} s",
        highlight=False,
    )
    for outcome in outcomes:
        if outcome.status is Status.PASS and outcome.reason:
            click.echo(f"{outcome.check.name}: {outcome.reason}", err=True)
    for leftover in about["leftovers"]:
        click.echo(f"could not be removed: {leftover}", err=True)
    if about["stopped"]:
        print_stop(console, about["stopped"])


def _data(outcomes: list[CheckOutcome], about: dict[str, Any]) -> dict[str, Any]:
    """Return the object that `--json` prints: also what the page needs."""
    data = as_json([each.result for each in outcomes], about)
    for row, outcome in zip(data["checks"], outcomes, strict=True):
        row["api"] = outcome.check.api
        row["versions"] = list(outcome.check.versions)
        row["situation"] = outcome.check.situation
        row["differences"] = [
            {
                "expected": list(each.expected),
                "received": list(each.received),
                "fields": [field._asdict() for field in each.fields],
            }
            for each in outcome.deviations
        ]
    return data


def _compare(first: Path, second: Path, html: Path | None) -> None:
    """Show two results side by side; exit with 1 if they differ."""
    from coterie.conformance.checks.compare import ComparisonError, differing_rows, read_results

    try:
        both = [read_results(path) for path in (first, second)]
    except ComparisonError as error:
        raise click.UsageError(str(error)) from error
    if html is not None:
        from coterie.conformance.checks.page import page

        html.write_text(page(both), encoding="utf-8")
    rows = differing_rows(*both)
    for name, one, other in rows:
        click.echo(f"{name}\n    {both[0]['broker']}: {one}\n    {both[1]['broker']}: {other}")
    click.echo(counted(len(rows), "check", "differs", "differ"), err=True)
    sys.exit(int(bool(rows)))
