"""`coterie quotas`: list, set and remove the quotas of any Kafka, as kafka-configs does.

The keys of `--json` are listed in documentation/reference/json_keys.tsv.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from coterie.cli.broker import broker_options, connected
from coterie.cli.main import CommandGroup
from coterie.cli.options import json_option
from coterie.cli.output import Column, Row, print_json, print_table, printable
from coterie.client.quotas import Entity, Quotas, alter_quotas, list_quotas

F = TypeVar("F", bound=Callable[..., Any])

KEYS = {
    "producer_byte_rate": "bytes a second that clients may produce",
    "consumer_byte_rate": "bytes a second that clients may fetch",
    "request_percentage": "time of the broker's threads; 100 is one thread",
    "controller_mutation_rate": "partitions a second that clients may create or delete",
    "connection_creation_rate": "connections a second of an address",
}
_TYPES = ("user", "client-id", "ip")
_DEFAULT = "<default>"


def _entity_text(entity: Entity) -> str:
    return ", ".join(
        f"{kind}={_DEFAULT if name is None else printable(name)}" for kind, name in entity.items()
    )


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


_COLUMNS = [
    Column("ENTITY", "entity", 30, _entity_text),
    Column("QUOTA", "key", 26),
    Column("VALUE", "value", 12, _number, number=True),
]


def _complete_keys(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [
        CompletionItem(key, help=text) for key, text in KEYS.items() if key.startswith(incomplete)
    ]


def _complete_settings(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [
        CompletionItem(f"{each.value}=", help=each.help)
        for each in _complete_keys(context, parameter, incomplete)
    ]


def _entity_options(function: F) -> F:
    """Add the options that name an entity."""
    for kind, what in reversed(
        (("user", "user"), ("client-id", "client id"), ("ip", "address of clients"))
    ):
        name = kind.replace("-", "_")
        function = click.option(
            f"--{kind}-defaults",
            f"{name}_defaults",
            is_flag=True,
            help=f"The default of every {what} without quotas of its own.",
        )(function)
        function = click.option(f"--{kind}", name, metavar="NAME", help=f"One {what}.")(function)
    return function


def _entity(options: dict[str, Any]) -> Entity:
    entity: dict[str, str | None] = {}
    for kind in _TYPES:
        name = kind.replace("-", "_")
        if options[name] is not None and options[f"{name}_defaults"]:
            raise click.UsageError(f"Give --{kind} or --{kind}-defaults, not both.")
        if options[name] is not None or options[f"{name}_defaults"]:
            entity[kind] = options[name]
    return entity


def _one_entity(options: dict[str, Any]) -> Entity:
    entity = _entity(options)
    if not entity:
        raise click.UsageError("Name what the quotas are for: --user, --client-id or --ip.")
    return entity


@click.group("quotas", cls=CommandGroup)
@broker_options
def command() -> None:
    """List, set and remove quotas of users, client ids and addresses."""


@command.command("list", short_help="List quotas.")
@_entity_options
@click.option("--strict", is_flag=True, help="Leave out entities with other types besides.")
@json_option
@broker_options
def list_(*, strict: bool, as_json: bool, **options: Any) -> None:
    """List the quotas of all entities, or of those that are named."""
    with connected() as cluster:
        found = list_quotas(cluster, _entity(options), strict=strict)
    if as_json:
        print_json([_row(each) for each in found])
        return
    rows: list[Row] = [
        {"entity": each.entity, "key": key, "value": value}
        for each in found
        for key, value in each.values.items()
    ]
    print_table(_COLUMNS, rows)


def _row(quotas: Quotas) -> Row:
    # JSON has only finite numbers; a quota may be none (documentation/reference/json_keys.tsv).
    values = {
        key: value if math.isfinite(value) else str(value) for key, value in quotas.values.items()
    }
    return {"entity": dict(quotas.entity), "quotas": values}


@command.command("set", short_help="Set quotas.")
@click.argument(
    "settings",
    metavar="KEY=NUMBER...",
    nargs=-1,
    required=True,
    shell_complete=_complete_settings,
)
@_entity_options
@click.option("--dry-run", is_flag=True, help="Only check whether the quotas could be set.")
@json_option
@broker_options
def set_(*, settings: tuple[str, ...], dry_run: bool, as_json: bool, **options: Any) -> None:
    """Set quotas of one entity; its other quotas stay."""
    entity = _one_entity(options)
    values = dict(_setting(each) for each in settings)
    with connected() as cluster:
        alter_quotas(cluster, entity, values, (), only_check=dry_run)
    _print_changed(entity, "set", list(values), dry_run=dry_run, as_json=as_json)


@command.command("remove", short_help="Remove quotas.")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True, shell_complete=_complete_keys)
@_entity_options
@click.option("--dry-run", is_flag=True, help="Only check whether the quotas could be removed.")
@json_option
@broker_options
def remove(*, keys: tuple[str, ...], dry_run: bool, as_json: bool, **options: Any) -> None:
    """Remove quotas of one entity; its other quotas stay."""
    entity = _one_entity(options)
    with connected() as cluster:
        alter_quotas(cluster, entity, {}, keys, only_check=dry_run)
    _print_changed(entity, "removed", list(keys), dry_run=dry_run, as_json=as_json)


def _setting(text: str) -> tuple[str, float]:
    key, _, number = text.partition("=")
    try:
        return key, float(number)
    except ValueError:
        raise click.UsageError(f"'{text}' is not KEY=NUMBER.") from None


def _print_changed(
    entity: Entity, verb: str, keys: list[str], *, dry_run: bool, as_json: bool
) -> None:
    if as_json:
        print_json({"entity": dict(entity), verb: keys, "dry_run": dry_run})
        return
    done = f"could be {verb}" if dry_run else verb
    click.echo(f"{', '.join(keys)} {done} for {_entity_text(entity)}.")
