"""`coterie configs`: describe, alter and list the settings of any Kafka.

The types of resources have the names of kafka-configs. The keys of `--json` are listed in
documentation/reference/json_keys.tsv.
"""

import click
from click.shell_completion import CompletionItem

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed
from coterie.cli.main import CommandGroup
from coterie.cli.options import complete_groups, complete_topics, json_option
from coterie.cli.output import Column, Row, note, print_json, print_rows, print_table, printable
from coterie.client.configs import (
    CLUSTER,
    DEFAULT_SOURCE,
    RESOURCE_TYPES,
    Change,
    Setting,
    alter_settings,
    describe_settings,
    list_resources,
    subject,
)
from coterie.client.errors import Refused, VersionUnsupported, error_name
from coterie.client.topic_rows import setting_row
from coterie.protocol.messages.incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT


def _name_text(name: str) -> str:
    """Return the name of a resource; that of the cluster is empty."""
    return printable(name) or "(cluster)"


_COLUMNS = [
    Column("NAME", "name", 15, _name_text),
    Column("KEY", "key", 40),
    Column("VALUE", "value", 20),
    Column("SOURCE", "source", 10),
]
_LIST_COLUMNS = [Column("TYPE", "type", 15), Column("NAME", "name", 25)]


def _complete_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return names of topics or groups; other resources have no useful completion."""
    kind = context.params.get("kind")
    if kind == "topics":
        return complete_topics(context, parameter, incomplete)
    if kind == "groups":
        return complete_groups(context, parameter, incomplete)
    return []


_type_argument = click.argument("kind", metavar="TYPE", type=click.Choice(list(RESOURCE_TYPES)))


@click.group("configs", cls=CommandGroup)
@broker_options
def command() -> None:
    """Describe, alter and list settings of any Kafka.

    TYPE is topics, brokers, broker-loggers, client-metrics or groups.
    """


@command.command("list")
@click.argument("kinds", metavar="[TYPE...]", nargs=-1, type=click.Choice(list(RESOURCE_TYPES)))
@json_option
@broker_options
def list_command(*, kinds: tuple[str, ...], as_json: bool) -> None:
    """List what has settings: all of them, or those of some types."""
    rows: list[Row] = []
    with connected() as cluster:
        for kind in kinds or RESOURCE_TYPES:
            try:
                rows += [{"type": kind, "name": name} for name in list_resources(cluster, kind)]
            except VersionUnsupported:
                if kinds:
                    raise
                note(f"This broker does not list {kind} with settings.")
    print_rows(_LIST_COLUMNS, rows, as_json=as_json)


@command.command("describe")
@_type_argument
@click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=_complete_names)
@click.option("--default", "is_cluster", is_flag=True, help="Settings of all brokers.")
@click.option("--all", "show_all", is_flag=True, help="Show settings with default values, too.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Show this setting; repeatable.")
@click.option("--documentation", is_flag=True, help="Show what each setting does.")
@json_option
@broker_options
def describe(
    *,
    kind: str,
    names: tuple[str, ...],
    is_cluster: bool,
    show_all: bool,
    keys: tuple[str, ...],
    documentation: bool,
    as_json: bool,
) -> None:
    """Show settings of resources; without a NAME, of all resources of the type.

    Of topics their own settings are shown, of others those that are not at their default; --all and
    --key show more.
    """
    if is_cluster and (kind != "brokers" or names):
        raise click.UsageError("--default belongs to brokers, without a NAME.")
    with connected() as cluster:
        wanted = [CLUSTER] if is_cluster else list(names) or list_resources(cluster, kind)
        described = describe_settings(
            cluster, kind, wanted, keys, everything=as_json or documentation
        )
    rows = [
        setting_row(kind, each.name, setting)
        for each in described
        for setting in each.settings
        if show_all or keys or kind == "broker-loggers" or _is_shown(kind, setting)
    ]
    if as_json:
        print_json(rows)
    elif documentation:
        _print_documentation(rows)
    else:
        print_table(_COLUMNS, rows)
    refused = [each for each in described if each.error]
    if refused:
        causes = [
            Refused(each.error, printable(subject(kind, each.name)), each.message).cause
            for each in refused
        ]
        raise CommandFailed("\n".join(causes))


@command.command("alter")
@_type_argument
@click.argument("name", metavar="[NAME]", required=False, shell_complete=_complete_names)
@click.option("--default", "is_cluster", is_flag=True, help="Alter settings of all brokers.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set; repeatable.")
@click.option("--delete", "deletes", multiple=True, metavar="KEY", help="Return to the default.")
@click.option("--append", "appends", multiple=True, metavar="KEY=VALUE", help="Add to a list.")
@click.option(
    "--subtract", "subtracts", multiple=True, metavar="KEY=VALUE", help="Remove from a list."
)
@click.option("--dry-run", is_flag=True, help="Only check whether it would succeed.")
@json_option
@broker_options
def alter(
    *,
    kind: str,
    name: str | None,
    is_cluster: bool,
    sets: tuple[str, ...],
    deletes: tuple[str, ...],
    appends: tuple[str, ...],
    subtracts: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Change settings of one resource: all of the changes, or none."""
    if is_cluster == (name is not None) or (is_cluster and kind != "brokers"):
        raise click.UsageError("Give a NAME; for the settings of all brokers, --default.")
    changes = [
        *(_change("--set", text, SET) for text in sets),
        *(Change(key, DELETE, None) for key in deletes),
        *(_change("--append", text, APPEND) for text in appends),
        *(_change("--subtract", text, SUBTRACT) for text in subtracts),
    ]
    if not changes:
        raise click.UsageError("Give at least one of --set, --delete, --append and --subtract.")
    resource = {"type": kind, "name": name or CLUSTER}
    try:
        with connected() as cluster:
            alter_settings(cluster, kind, name or CLUSTER, changes, dry_run=dry_run)
    except CommandFailed as failure:
        refused = failure.__cause__
        if as_json and isinstance(refused, Refused):
            print_json({**resource, "altered": False, "error": error_name(refused.code)})
        raise
    if as_json:
        print_json({**resource, "altered": not dry_run, "error": None})
    else:
        verb = "would be altered" if dry_run else "altered"
        click.echo(f"{printable(subject(kind, name or CLUSTER))}: {len(changes)} {verb}.")


def _change(option: str, text: str, operation: int) -> Change:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"Invalid value for {option}: {text!r} is not KEY=VALUE.")
    return Change(key.strip(), operation, value)


def _is_shown(kind: str, setting: Setting) -> bool:
    """Return whether a setting is shown without being asked for.

    A topic has what is set for the cluster in common with all others, and a Kafka 4 always has one
    such setting [settings/kept-for-the-cluster].
    """
    return setting.source == "topic" if kind == "topics" else setting.source != DEFAULT_SOURCE


def _print_documentation(rows: list[Row]) -> None:
    for row in rows:
        value = "(secret)" if row["sensitive"] else row["value"]
        click.echo(printable(f"{row['key']} = {value}  ({row['source']})"))
        if row["documentation"]:
            click.echo(f"    {printable(row['documentation'])}")
