"""`coterie`: the command line.

A command's module is imported when that command runs, so that `coterie serve` starts quickly and
`coterie --help` does not import what it only lists. This is why the one-line help texts are here
and not with the commands.
"""

import os
import select
import sys
from collections.abc import Mapping
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import click

from coterie import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_STDOUT = 1

COMMANDS = {
    "serve": "Start the broker.",
    "console": "Show groups, topics and records of any Kafka in a browser, live.",
    "groups": "List, inspect, reset and delete consumer groups.",
    "topics": "List, create, describe, assign and delete topics.",
    "configs": "Describe, alter and list settings.",
    "cluster": "Show brokers; kill, start and move those of `serve --brokers`.",
    "transactions": "List, describe and abort transactions.",
    "quotas": "List, set and remove quotas of users, client ids and addresses.",
    "acls": "List, add and remove access rules.",
    "users": "List, add and remove users that log in with SCRAM.",
    "tokens": "List, create, renew and expire delegation tokens.",
    "log-dirs": "Show log directories and the sizes of logs.",
    "check": "Check whether a broker behaves as Kafka does.",
    "check-client": "Check what a consumer program does against the protocol.",
    "doctor": "Show what is missing on this machine, for each use.",
    "dump": "Print log files, protocol frames and compiled codecs.",
    "pipeline": "Analyse rebalances from the logs of a broker.",
    "lab": "Compare protocols of group rebalancing in a simulation.",
    "compact": "Compact the logs of a broker that is not running.",
    "proxy": "Record the requests and responses between clients and a broker.",
    "replay": "Send the requests of a recording again and compare the answers.",
    "docs": "Open the documentation in a browser.",
    "completion": "Print the completion script for bash, zsh or fish.",
}


class CommandGroup(click.Group):
    """A group of commands that suggests the command that was most likely meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names."""
        name = args[0]
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            # Imported here because only a wrong name needs it.
            from difflib import get_close_matches

            close = get_close_matches(name, known, 1)
            ctx.fail(
                f"No such command '{name}'." + (f" Did you mean '{close[0]}'?" if close else "")
            )
        return super().resolve_command(ctx, args)


class LazyCommands(CommandGroup):
    """A group of commands that are imported when they are called.

    The command `a-b` is the object `command` of the module `PACKAGE.a_b`.

    Attributes:
        summaries: the name of each command and its line in the help, in the order of the help.
        package: the package with the modules of the commands.
    """

    summaries: Mapping[str, str] = COMMANDS
    package = "coterie.cli"

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands, in the order of the help."""
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command; None if there is no command of this name."""
        if cmd_name not in self.summaries:
            return None
        module = import_module(f"{self.package}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands in the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        """Complete the names of commands and options, without importing the commands."""
        # Imported here, because only the completion of a shell needs it.
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=summary)
            for name, summary in self.summaries.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    """Print the version and the form, and exit."""
    if not wanted or ctx.resilient_parsing:
        return
    from coterie.installation import form

    click.echo(f"coterie, version {__version__} ({form()})")
    ctx.exit()


class _Coterie(LazyCommands):
    """The command line as a whole."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and exit; a reader that has seen enough is no failure [terminal/head]."""
        output = sys.stdout
        for stream in (sys.stdout, sys.stderr):
            # Files and pipes of Windows take only the characters of a code page.
            if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":
                stream.reconfigure(errors="replace")
        try:
            return super().main(*args, **kwargs)
        except SystemExit:
            # click replaces standard output after a broken pipe, and ends with 1.
            if sys.stdout is output or not _is_abandoned():
                raise
            # What is left in the buffer goes nowhere, so that the interpreter can end quietly.
            os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
            sys.exit(0)


def _is_abandoned() -> bool:
    """Return whether standard output is a pipe that nobody reads any more."""
    if not hasattr(select, "poll"):
        # Windows, whose pipes cannot be asked.
        return False
    waiting = select.poll()
    try:
        waiting.register(_STDOUT, select.POLLOUT)
        return any(event & select.POLLERR for _, event in waiting.poll(0))
    except OSError:
        return False


@click.command(cls=_Coterie)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and the form, pure or compiled, and exit.",
)
def main() -> None:
    """A group coordinator and development broker that speaks the Kafka protocol.

    `console`, `groups`, `topics`, `configs`, `cluster status`, `transactions`, `quotas`, `acls`,
    `users`, `tokens`, `log-dirs`, `check` and `proxy` also work with any other Kafka broker;
    `dump`, `compact` and `pipeline` also work with the files of one.
    """
