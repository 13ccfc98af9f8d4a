"""`coterie topics produce`: append one record to a partition."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.options import complete_topics, json_option
from coterie.cli.output import print_json, printable
from coterie.cli.values import WholeNumber
from coterie.client.producing import FORMATS, content_of, produce_record

F = TypeVar("F", bound=Callable[..., Any])


def _form(name: str) -> Callable[[F], F]:
    return click.option(
        f"--{name}-format",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help=f"How the {name} is written; json is checked, null is none.",
    )


@click.command("produce")
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.option(
    "--partition",
    type=WholeNumber(0, (1 << 31) - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="The partition.",
)
@click.option("--key", metavar="TEXT", help="The key.  [default: none]")
@_form("key")
@click.option("--value", default="", metavar="TEXT", help="The value.  [default: an empty one]")
@_form("value")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=TEXT", help="A header; repeatable."
)
@json_option
@broker_options
def command(
    *,
    topic: str,
    partition: int,
    key: str | None,
    key_format: str,
    value: str,
    value_format: str,
    headers: tuple[str, ...],
    as_json: bool,
) -> None:
    """Append one record to a partition, once all replicas in sync have it."""
    try:
        key_bytes = None if key is None else content_of(key, key_format)
        value_bytes = content_of(value, value_format)
    except ValueError as error:
        raise click.UsageError(f"Key or value: {error}.") from None
    found = [_header(each) for each in headers]
    with connected() as cluster:
        offset = produce_record(cluster, (topic, partition), key_bytes, value_bytes, found)
    if as_json:
        print_json({"topic": topic, "partition": partition, "offset": offset, "error": None})
    else:
        click.echo(f"Appended a record to {printable(topic)}-{partition} at offset {offset}.")


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"Invalid value for --header: {text!r} is not NAME=TEXT.")
    return name, value.encode()
