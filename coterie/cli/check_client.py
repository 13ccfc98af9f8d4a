"""`coterie check-client -- COMMAND...`: does that consumer keep to the rules of the protocol?

Exit code 0: the client breaks no rule. 1: it breaks some. 2: the command line is wrong, the program
cannot be started or never connects, or a check has itself failed.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.options import json_option
from coterie.cli.output import Row, print_checks
from coterie.cli.values import AT_ONCE, OutputFile
from coterie.server.operating_system import on_signals

if TYPE_CHECKING:
    from coterie.client_check.model import Check, Scenario
    from coterie.conformance.results import Result

_SUITE = "coterie check-client"
_CANNOT_CHECK = 2
# What a shell reports of a command that SIGTERM has ended.
_TERMINATED = 143
# Programs that run at once. Most of a run is waiting, but their starts take processor time.
_PARALLEL = 6


class _CannotCheckError(click.ClickException):
    """The program cannot be checked: exit code 2, with cause and remedy."""

    exit_code = _CANNOT_CHECK


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--only", multiple=True, metavar="PATTERN", help="Checks of this area or name.")
@click.option("--list", "as_list", is_flag=True, help="Print the checks and run none.")
@click.option(
    "--protocol",
    type=click.Choice(["classic", "consumer"]),
    default="classic",
    show_default=True,
    help="The protocol of groups that the client speaks; {protocol} in the command.",
)
@click.option(
    "--security",
    type=click.Choice(["SASL_PLAINTEXT", "SASL_SSL"]),
    help="Let the client log in; {username} and {password} in the command.",
)
@click.option(
    "--mechanism",
    type=click.Choice(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
    default="SCRAM-SHA-512",
    show_default=True,
    help="What the client logs in with.",
)
@click.option("--thorough", is_flag=True, help="Run the checks with long waits, too.")
@click.option(
    "--parallel",
    type=AT_ONCE,
    metavar="N",
    default=_PARALLEL,
    show_default=True,
    help="Programs at once.",
)
@click.option("--junit", type=OutputFile(), help="Write JUnit XML.")
@click.option(
    "--verbose", is_flag=True, help="Print the conversations of checks that did not pass."
)
@json_option
@click.argument("program", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
def command(program: tuple[str, ...], *, as_json: bool, **options: Any) -> None:
    """Run a consumer program against a scripted broker, and check what the client does.

    In the command {bootstrap}, {topic} and {group} are replaced. {instance_id}, {assignor},
    {client_id}, {protocol} and {regex} are optional and allow more checks; an empty instance id or
    regular expression means none. With --protocol consumer the client is checked by the rules of
    KIP-848. With --security the broker has logins, and there are checks of these; {security},
    {mechanism} and {ca}, the file of the authority, are optional. The program may print each record
    as "topic partition offset value", and should end in order on SIGTERM.

    The program is started about sixty times, several at once, which takes one or two minutes.
    """
    from coterie.client_check import checks as _checks  # noqa: F401 - registers the scenarios
    from coterie.client_check.model import SCENARIOS
    from coterie.client_check.suite import STARTS, played

    scenarios = [
        each
        for each in played(SCENARIOS, options["protocol"], secured=bool(options["security"]))
        if options["thorough"] or not each.is_long
    ]
    wanted = _wanted(options["only"])
    checks = [*(check for each in scenarios for check in each.checks), STARTS]
    listed = [check for check in checks if wanted(check.name)]
    if not listed:
        raise click.UsageError(f"--only {' '.join(options['only'])}: no check fits; see --list.")
    if options["as_list"]:
        print_checks([_row(each) for each in listed], as_json=as_json)
        return
    _check_command(program, options["security"])
    try:
        code = asyncio.run(_check(program, scenarios, wanted, options, as_json=as_json))
    except asyncio.CancelledError:
        code = _TERMINATED
    sys.exit(code)


def _wanted(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return whether a check was asked for: by its name, its area, or a pattern of names."""

    def is_wanted(name: str) -> bool:
        area = name.partition("/")[0]
        return not patterns or any(each == area or fnmatch(name, each) for each in patterns)

    return is_wanted


def _check_command(program: Sequence[str], security: str | None) -> None:
    """Check that a command has the places that every run needs."""
    from coterie.client_check.program import REQUIRED_PLACES, places_in
    from coterie.client_check.security import PASSWORD_PLACE

    if not program:
        raise click.UsageError(
            "Missing the command of the consumer program.\n"
            "Example: coterie check-client -- python consumer.py {bootstrap} {topic} {group}"
        )
    missing = [f"{{{each}}}" for each in REQUIRED_PLACES if each not in places_in(program)]
    if missing:
        raise click.UsageError(
            f"The command has no {', '.join(missing)}: the program has to get the broker, the topic"
            " and the group that it uses from its command."
        )
    if security and PASSWORD_PLACE not in places_in(program):
        raise click.UsageError(
            "The command has no {password}: with --security the program has to get its password"
            " from its command, and its user with {username}."
        )


def _row(check: "Check") -> Row:
    return {
        "name": check.name,
        "area": check.name.partition("/")[0],
        "sentence": check.sentence,
        "source": check.source,
        "needs": list(check.needs),
    }


async def _check(
    program: Sequence[str],
    scenarios: Sequence["Scenario"],
    wanted: Callable[[str], bool],
    options: dict[str, Any],
    *,
    as_json: bool,
) -> int:
    """Play the scenarios and report; return the exit code."""
    from coterie.cli.client_results import Progress, print_results
    from coterie.client_check.model import FAILING, Judgement
    from coterie.client_check.program import CommandNotUsable, places_in
    from coterie.client_check.security import ClientSecurity
    from coterie.client_check.sockets import HOST, Sockets
    from coterie.client_check.suite import Suite
    from coterie.conformance.results import as_json as results_as_json
    from coterie.conformance.results import as_junit, exit_code

    task = asyncio.current_task()
    assert task is not None, "this is a coroutine"
    # So that no program is left running.
    on_signals(["SIGTERM"], task.cancel)
    began_s = time.monotonic()
    asked, security = options["security"], None
    if asked:
        try:
            security = ClientSecurity(asked, options["mechanism"], HOST)
        except CommandNotUsable as error:
            raise _CannotCheckError(_sentence(str(error))) from None
    with Progress(scenarios, shown=not as_json) as progress:
        suite = Suite(
            Sockets(program, security),
            scenarios,
            places_in(program),
            protocol=options["protocol"],
            security=None if security is None else security.values,
            parallel=options["parallel"],
            report=progress.played,
            wanted=wanted,
        )
        try:
            results: list[Result] = await suite.run()
        except CommandNotUsable as error:
            raise _CannotCheckError(_sentence(str(error))) from None
        finally:
            if security is not None:
                security.end()
    about = {
        "command": list(program),
        "protocol": options["protocol"],
        "security": asked,
        "client": suite.profile.as_json(),
        "seconds": round(time.monotonic() - began_s, 1),
    }
    if options["junit"]:
        options["junit"].write_text(as_junit(results, _SUITE, FAILING), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(results_as_json(results, about, Judgement), indent=2))
    else:
        print_results(results, about, verbose=options["verbose"])
    return exit_code(results, FAILING)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
