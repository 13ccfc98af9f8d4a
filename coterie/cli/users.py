"""`coterie users`: list, add and remove SCRAM credentials of any Kafka, as kafka-configs does.

The keys of `--json` are listed in documentation/reference/json_keys.tsv. A password is never an
argument, because other users of the machine can read arguments.
"""

import os
from typing import IO

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.main import CommandGroup
from coterie.cli.options import json_option
from coterie.cli.output import Column, Row, print_json, print_table, printable
from coterie.client.users import MECHANISMS, add_user, list_users, remove_user
from coterie.security.scram import MAX_ITERATIONS, MIN_ITERATIONS

_SALT_BYTES = 20
_NAMES = sorted(MECHANISMS.values())

_COLUMNS = [
    Column("USER", "user", 30, printable),
    Column("MECHANISM", "mechanism", 14),
    Column("ITERATIONS", "iterations", 10, number=True),
]

_mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(_NAMES),
    multiple=True,
    help="Mechanism of the credential; repeatable.  [default: both]",
)


@click.group("users", cls=CommandGroup)
@broker_options
def command() -> None:
    """List, add and remove users that log in with SCRAM."""


@command.command("list", short_help="List users.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@json_option
@broker_options
def list_(*, names: tuple[str, ...], as_json: bool) -> None:
    """List users with credentials, or those of the named ones that have some."""
    with connected() as cluster:
        found = list_users(cluster, names)
    if as_json:
        print_json([{"user": each.name, "iterations": each.iterations} for each in found])
        return
    rows: list[Row] = [
        {"user": each.name, "mechanism": mechanism, "iterations": iterations}
        for each in found
        for mechanism, iterations in each.iterations.items()
    ]
    print_table(_COLUMNS, rows)


@command.command("add", short_help="Add a user, or give it a new password.")
@click.argument("name", metavar="NAME")
@_mechanism_option
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=MIN_ITERATIONS,
    show_default=True,
    metavar="N",
    help="How often the password is hashed.",
)
@click.option(
    "--password-file",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="File whose first line is the password, - for standard input.  [default: ask for it]",
)
@json_option
@broker_options
def add(
    *,
    name: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: IO[str] | None,
    as_json: bool,
) -> None:
    """Give a user credentials; those that it has for these mechanisms are replaced."""
    password = _password(name, password_file)
    chosen = list(mechanisms) or _NAMES
    with connected() as cluster:
        for mechanism in chosen:
            add_user(cluster, name, mechanism, password, iterations, os.urandom(_SALT_BYTES))
    _print_changed(name, "added", chosen, as_json=as_json)


@command.command("remove", short_help="Remove a user.")
@click.argument("name", metavar="NAME")
@_mechanism_option
@json_option
@broker_options
def remove(*, name: str, mechanisms: tuple[str, ...], as_json: bool) -> None:
    """Remove the credentials of a user; connections that are logged in stay so."""
    with connected() as cluster:
        chosen = list(mechanisms)
        if not chosen:
            chosen = [mechanism for each in list_users(cluster, [name]) for mechanism in each[1]]
        # Without credentials the broker says so.
        chosen = chosen or _NAMES[:1]
        for mechanism in chosen:
            remove_user(cluster, name, mechanism)
    _print_changed(name, "removed", chosen, as_json=as_json)


def _password(name: str, file: IO[str] | None) -> str:
    if file is None:
        asked: str = click.prompt(
            f"Password of {printable(name)}", hide_input=True, confirmation_prompt=True, err=True
        )
        return asked
    password = file.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("The first line of --password-file is empty.")
    return password


def _print_changed(name: str, verb: str, mechanisms: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"user": name, verb: mechanisms})
    else:
        click.echo(f"{', '.join(mechanisms)} {verb} for {printable(name)}.")
