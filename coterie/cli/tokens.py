"""`coterie tokens`: delegation tokens of any Kafka, as kafka-delegation-tokens has them.

The keys of `--json` are listed in documentation/reference/json_keys.tsv.
"""

from base64 import b64encode

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.main import CommandGroup
from coterie.cli.options import json_option
from coterie.cli.output import Column, Row, note, print_json, print_rows, printable
from coterie.cli.values import short_duration_ms
from coterie.client.times import time_text
from coterie.client.tokens import (
    DEFAULT_MS,
    Token,
    create_token,
    expire_token,
    list_tokens,
    renew_token,
)

_COLUMNS = [
    Column("TOKEN-ID", "token_id", 22),
    Column("OWNER", "owner", 20, printable),
    Column("REQUESTER", "requester", 20, printable),
    Column("RENEWERS", "renewers", 20, lambda names: printable(", ".join(names))),
    Column("ISSUED", "issued", 29),
    Column("EXPIRES", "expires", 29),
    Column("ENDS", "ends", 29),
]


def _period(_: click.Context, __: click.Parameter, text: str | None) -> int:
    if text is None:
        return DEFAULT_MS
    found = short_duration_ms(text)
    if not found:
        raise click.BadParameter(f"{text!r} is no duration such as 12h or 7d.")
    return found


@click.group("tokens", cls=CommandGroup)
@broker_options
def command() -> None:
    """List, create, renew and expire delegation tokens."""


@command.command("list", short_help="List tokens.")
@click.argument("owners", metavar="[OWNER]...", nargs=-1)
@json_option
@broker_options
def list_(*, owners: tuple[str, ...], as_json: bool) -> None:
    """List the tokens that you may see, or those of some owners, such as User:alice."""
    with connected() as cluster:
        found = list_tokens(cluster, owners)
    print_rows(_COLUMNS, [_row(each) for each in found], as_json=as_json)


@command.command("create", short_help="Create a token.")
@click.option("--owner", metavar="PRINCIPAL", help="Whose token it is.  [default: your own]")
@click.option(
    "--renewer", "renewers", multiple=True, metavar="PRINCIPAL", help="May renew it; repeatable."
)
@click.option(
    "--lifetime",
    "lifetime_ms",
    metavar="DURATION",
    callback=_period,
    help="How long it can be renewed at most, such as 7d.  [default: the broker's]",
)
@json_option
@broker_options
def create(
    *, owner: str | None, renewers: tuple[str, ...], lifetime_ms: int, as_json: bool
) -> None:
    """Create a token and print what a client logs in with: SCRAM, with the id of the token as the
    user, its HMAC as the password, and tokenauth="true".
    """
    with connected() as cluster:
        made = create_token(cluster, owner, renewers, lifetime_ms)
    password = b64encode(made.hmac).decode()
    if as_json:
        print_json({**_row(made), "hmac": password})
        return
    click.echo(f"username  {made.token_id}")
    click.echo(f"password  {password}")
    note(f"It expires at {time_text(made.expires_ms)} unless it is renewed.")


@command.command("renew", short_help="Let a token expire later.")
@click.argument("token_id", metavar="TOKEN_ID")
@click.option(
    "--for",
    "period_ms",
    metavar="DURATION",
    callback=_period,
    help="From now on, such as 24h.  [default: the broker's]",
)
@json_option
@broker_options
def renew(*, token_id: str, period_ms: int, as_json: bool) -> None:
    """Let a token expire later, but not after its end."""
    with connected() as cluster:
        expires_ms = renew_token(cluster, token_id, period_ms)
    if as_json:
        print_json({"token_id": token_id, "expires": time_text(expires_ms)})
    else:
        click.echo(f"{token_id} expires at {time_text(expires_ms)}.")


@command.command("expire", short_help="End a token.")
@click.argument("token_id", metavar="TOKEN_ID")
@json_option
@broker_options
def expire(*, token_id: str, as_json: bool) -> None:
    """End a token at once; connections that are logged in with it stay so."""
    with connected() as cluster:
        expire_token(cluster, token_id)
    if as_json:
        print_json({"token_id": token_id, "expired": True})
    else:
        click.echo(f"{token_id} has ended.")


def _row(token: Token) -> Row:
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued": time_text(token.issued_ms),
        "expires": time_text(token.expires_ms),
        "ends": time_text(token.ends_ms),
    }
