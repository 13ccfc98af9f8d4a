"""`coterie`: the command line. A command's module is imported when that command runs.

The start of `coterie serve` is measured, and `coterie --help` shall not wait for what it only
names: hence the one-line helps stand here. A command `x` is the object `x` of the module
coterie/cli/x.py.
"""

from collections.abc import Mapping
from importlib import import_module

import click
from click.shell_completion import CompletionItem

COMMANDS = {
    "serve": "Start the broker.",
    "groups": "List, describe, delete and reset consumer groups.",
    "topics": "List, create, describe and delete topics.",
    "dump": "Look at logs, frames and compiled codecs.",
    "pipeline": "Tell the history of groups from logs: who caused which rebalance.",
    "compact": "Compact the logs of a data directory that no server uses.",
    "completion": "Print the script for completion in bash, zsh or fish.",
}


class LazyCommands(click.Group):
    """A group whose commands are modules that nobody imports before their command is called.

    Attributes:
        about: one line of help for each command, by its name.
        modules: what stands before a command's name in the name of its module.
    """

    about: Mapping[str, str] = COMMANDS
    modules = "coterie.cli."

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order of the help."""
        return list(self.about)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of a name."""
        if cmd_name not in self.about:
            return None
        command: click.Command = getattr(import_module(f"{self.modules}{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands in the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.about.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands and options, without importing the commands."""
        commands = [
            CompletionItem(name, help=about)
            for name, about in self.about.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


@click.command(cls=LazyCommands)
@click.version_option(package_name="coterie")
def main() -> None:
    """A Kafka-wire-compatible group coordinator and development broker, and tools for any Kafka."""
