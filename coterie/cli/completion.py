"""`coterie completion`: print the script that makes a shell complete `coterie` commands."""

import click
from click.shell_completion import get_completion_class

# click reads this variable in a program called `coterie`; the completion scripts set it.
_VARIABLE = "_COTERIE_COMPLETE"

_INSTALLATION = {
    "bash": 'eval "$(coterie completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(coterie completion zsh)"    # in ~/.zshrc, after compinit',
    "fish": "coterie completion fish > ~/.config/fish/completions/coterie.fish",
}


@click.command("completion", epilog="Install it with:\n\n\b\n" + "\n".join(_INSTALLATION.values()))
@click.argument("shell", type=click.Choice(list(_INSTALLATION)))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete `coterie` commands.

    Names of groups and topics are completed too, if the broker answers within 0.4 seconds. The
    broker is that of --bootstrap-server on the same line, or else of COTERIE_BOOTSTRAP.
    """
    completion_class = get_completion_class(shell)
    assert completion_class is not None, f"click completes {shell}"
    script = completion_class(context.find_root().command, {}, "coterie", _VARIABLE).source()
    click.echo(script.strip())
