"""`coterie completion`: the script that lets a shell complete commands, groups and topics."""

import click
from click.shell_completion import get_completion_class

# click looks for this variable when the program is called `coterie`; the scripts set it.
_VARIABLE = "_COTERIE_COMPLETE"

_HOW = {
    "bash": 'eval "$(coterie completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(coterie completion zsh)"   # in ~/.zshrc, behind compinit',
    "fish": "coterie completion fish > ~/.config/fish/completions/coterie.fish",
}


@click.command(
    short_help="Print the script for completion in bash, zsh or fish.",
    epilog="\b\n" + "\n".join(_HOW.values()),
)
@click.argument("shell", type=click.Choice(list(_HOW)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete `coterie` commands.

    Names of groups and topics are completed too, from the broker that COTERIE_BOOTSTRAP or
    --bootstrap-server on the same line names, if it answers at once.
    """
    found = get_completion_class(shell)
    assert found is not None, f"click completes {shell}"
    click.echo(found(context.find_root().command, {}, "coterie", _VARIABLE).source().strip())
