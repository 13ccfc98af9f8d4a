"""`coterie acls`: list, add and remove the access rules of any Kafka, as kafka-acls does.

The keys of `--json` are listed in documentation/reference/json_keys.tsv.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.main import CommandGroup
from coterie.cli.options import json_option
from coterie.cli.output import Column, Row, print_json, print_table
from coterie.client.acls import add_acls, list_acls, remove_acls
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.resources import ResourceType
from coterie.security.acl import EVERYTHING, Acl, AclFilter, PatternType, Permission
from coterie.security.acl_text import InvalidAcl, acl_text, name_of, parse_acl

F = TypeVar("F", bound=Callable[..., Any])

_COLUMNS = [
    Column("PRINCIPAL", "principal", 24),
    Column("PERMISSION", "permission", 10),
    Column("OPERATION", "operation", 16),
    Column("TYPE", "resource_type", 16),
    Column("NAME", "name", 30),
    Column("PATTERN", "pattern_type", 8),
    Column("HOST", "host", 15),
]


def _words(codes: type[IntEnum], *, left_out: tuple[str, ...] = ("UNKNOWN",)) -> click.Choice[str]:
    names = [each.name.lower().replace("_", "-") for each in codes if each.name not in left_out]
    return click.Choice(names, case_sensitive=False)


def _code(codes: type[IntEnum], word: str) -> int:
    return int(codes[word.upper().replace("-", "_")])


def _filter_options(function: F) -> F:
    """Add the options that say which rules are meant."""
    without_any = ("UNKNOWN", "ANY")
    options = [
        click.option(
            "--type",
            "kind",
            type=_words(ResourceType, left_out=without_any),
            help="Rules for resources of this type.",
        ),
        click.option("--name", metavar="NAME", help="Rules for this name of resources."),
        click.option(
            "--pattern",
            type=_words(PatternType),
            default="any",
            show_default=True,
            help="How the name of a rule is compared; `match` means all rules that count for NAME.",
        ),
        click.option("--principal", metavar="PRINCIPAL", help="Rules for it, such as User:alice."),
        click.option("--host", metavar="ADDRESS", help="Rules for this address; * is one, too."),
        click.option(
            "--operation",
            type=_words(AclOperation, left_out=without_any),
            help="Rules for this operation.",
        ),
        click.option(
            "--permission",
            type=_words(Permission, left_out=without_any),
            help="Rules that allow, or that deny.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def _filter(options: dict[str, Any]) -> AclFilter:
    wanted = EVERYTHING._replace(
        name=options["name"],
        pattern_type=_code(PatternType, options["pattern"]),
        principal=options["principal"],
        host=options["host"],
    )
    if options["kind"]:
        wanted = wanted._replace(resource_type=_code(ResourceType, options["kind"]))
    if options["operation"]:
        wanted = wanted._replace(operation=_code(AclOperation, options["operation"]))
    if options["permission"]:
        wanted = wanted._replace(permission=_code(Permission, options["permission"]))
    return wanted


@click.group("acls", cls=CommandGroup)
@broker_options
def command() -> None:
    """List, add and remove access rules."""


@command.command("list", short_help="List access rules.")
@_filter_options
@json_option
@broker_options
def list_(*, as_json: bool, **options: Any) -> None:
    """List all access rules, or those that are meant."""
    with connected() as cluster:
        found = list_acls(cluster, _filter(options))
    _print(found, as_json=as_json)


@command.command("add", short_help="Add access rules.")
@click.argument("rules", metavar="RULE...", nargs=-1, required=True)
@json_option
@broker_options
def add(*, rules: tuple[str, ...], as_json: bool) -> None:
    """Add access rules, each in quotes: "User:alice ALLOW READ TOPIC orders- PREFIXED host=*".

    The pattern type is LITERAL and the host * if they are left out. CLUSTER needs no name.
    """
    try:
        acls = [parse_acl(each) for each in rules]
    except InvalidAcl as error:
        raise click.UsageError(f"{error}.") from None
    with connected() as cluster:
        add_acls(cluster, acls)
    if as_json:
        print_json([_row(each) for each in acls])
        return
    for each in acls:
        click.echo(f"Added: {acl_text(each)}")


@command.command("remove", short_help="Remove access rules.")
@_filter_options
@click.option("--all", "everything", is_flag=True, help="Remove all rules.")
@click.option("--dry-run", is_flag=True, help="Only list the rules that would be removed.")
@json_option
@broker_options
def remove(*, everything: bool, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Remove the access rules that are meant, and list them."""
    wanted = _filter(options)
    is_everything = wanted._replace(pattern_type=EVERYTHING.pattern_type) == EVERYTHING
    if is_everything != everything:
        raise click.UsageError("Say which rules: by --type, --principal and so on, or by --all.")
    with connected() as cluster:
        found = (list_acls if dry_run else remove_acls)(cluster, wanted)
    _print(found, as_json=as_json)


def _row(acl: Acl) -> Row:
    return {
        "principal": acl.principal,
        "permission": name_of(Permission, acl.permission),
        "operation": name_of(AclOperation, acl.operation),
        "resource_type": name_of(ResourceType, acl.resource_type),
        "name": acl.name,
        "pattern_type": name_of(PatternType, acl.pattern_type),
        "host": acl.host,
    }


def _print(acls: list[Acl], *, as_json: bool) -> None:
    rows = [_row(each) for each in acls]
    if as_json:
        print_json(rows)
    else:
        print_table(_COLUMNS, rows)
