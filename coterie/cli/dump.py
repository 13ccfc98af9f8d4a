"""`coterie dump`: look at the wire protocol (compiled codecs, frames byte by byte) and at logs."""

import re
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

from coterie.cli.apis import api_name, api_named
from coterie.cli.broker import CommandFailed
from coterie.cli.dump_log import log
from coterie.cli.output import print_json, print_styled
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.wire import Struct

# Bytes to a line of a dump, as everywhere.
_LINE_BYTES = 16
# Lines a single long value (records, metadata) takes unless --full asks for all of it.
_VALUE_LINES = 4


@click.group(short_help="Look at logs, frames and compiled codecs.")
def dump() -> None:
    """Look at what is in the files of a log, in a frame, or in a compiled codec."""


dump.add_command(log)


def _complete_api(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [api_name(key) for key in ApiKey]
    return [CompletionItem(name) for name in names if name.lower().startswith(incomplete.lower())]


@dump.command("codec")
@click.argument("api", metavar="API", shell_complete=_complete_api)
@click.argument("version", type=int, required=False)
@click.option("--response", is_flag=True, help="The response's codec instead of the request's.")
@click.option(
    "--direction",
    type=click.Choice(["decode", "encode", "frame"]),
    help="By default what a server runs: decode of a request, frame of a response.",
)
def codec(*, api: str, version: int | None, response: bool, direction: str | None) -> None:
    """Print the compiled source of a codec, e.g. JoinGroup 7; by default its newest version."""
    from coterie.protocol.compile import source_of

    key = api_named(api)
    first, last = SERVED_VERSIONS[key]
    version = last if version is None else version
    if not first <= version <= last:
        raise CommandFailed(f"{api_name(key)} has versions {first} to {last}, not {version}.")
    response = response or api.lower().endswith("response")
    if direction == "frame" and not response:
        raise click.UsageError("--direction frame is of responses: add --response.")
    cls = response_class(key) if response else request_class(key)
    source, _ = source_of(cls, direction or ("frame" if response else "decode"), version)
    click.echo(source, nl=False)


@dump.command("frame")
@click.argument("hexadecimal", metavar="HEX...|-", nargs=-1, required=True)
@click.option(
    "--response-to",
    metavar="API:VERSION",
    help="The frame is an answer; answers do not say what they answer.",
)
@click.option("--full", is_flag=True, help="Show long values to their last byte.")
@click.option("--json", "as_json", is_flag=True, help="Print the decoded message as JSON.")
def frame(
    *, hexadecimal: tuple[str, ...], response_to: str | None, full: bool, as_json: bool
) -> None:
    """Take a request or response frame apart, given as hexadecimal or (-) on standard input.

    The length prefix may be there or not. Standard input may be hexadecimal or the bytes
    themselves. Several frames may follow each other when they have their length prefixes.
    """
    from coterie.cli.annotate import WALK_ERRORS
    from coterie.cli.frames import Answer, decoded, dissect, split_frames

    data = _read_input() if hexadecimal == ("-",) else _from_hex("".join(hexadecimal))
    answer = None if response_to is None else Answer(*_answered(response_to))
    decodings: list[Any] = []
    for n, (start, end) in enumerate(split_frames(data)):
        part = data[start:end]
        if as_json:
            try:
                decodings.append(decoded(part, answer, _jsonable))
            except WALK_ERRORS as error:
                raise CommandFailed(f"Malformed frame: {error}.") from error
            continue
        if n:
            click.echo()
        pieces, trouble = dissect(part, answer)
        for piece in pieces:
            _print_piece(part[piece.start : piece.end], "  " * piece.depth + piece.text, full=full)
        if trouble:
            rest = pieces[-1].end if pieces else 0
            _print_piece(part[rest:], "not understood", full=full)
            raise CommandFailed(f"Malformed at byte {rest}: {trouble}.")
    if as_json:
        print_json(decodings)


def _answered(text: str) -> tuple[ApiKey, int]:
    api, _, number = text.partition(":")
    key = api_named(api)
    first, last = SERVED_VERSIONS[key]
    if not number.isdigit() or not first <= int(number) <= last:
        raise click.UsageError(
            f"Invalid value for --response-to: {text!r} is no {api_name(key)}:{first} to "
            f"{api_name(key)}:{last}."
        )
    return key, int(number)


def _read_input() -> bytes:
    data = sys.stdin.buffer.read()
    try:
        return _from_hex(data.decode("ascii"))
    except (UnicodeDecodeError, click.UsageError):
        return data


def _from_hex(text: str) -> bytes:
    """Bytes from hexadecimal as people paste it: with spaces, colons, commas, 0x or \\x."""
    digits = re.sub(r"0x|\\x|[\s:,]", "", text)
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise click.UsageError("The frame is not hexadecimal.") from error


def _print_piece(data: bytes, text: str, *, full: bool) -> None:
    lines = [data[at : at + _LINE_BYTES] for at in range(0, len(data), _LINE_BYTES)] or [b""]
    shown = lines if full else lines[:_VALUE_LINES]
    for n, line in enumerate(shown):
        cell = line.hex(" ").ljust(_LINE_BYTES * 3 + 1)
        print_styled([(cell, "cyan"), (text if n == 0 else "", "")])
    if len(lines) > len(shown):
        print_styled([(f"... {len(data) - len(shown) * _LINE_BYTES} more bytes (--full)", "dim")])


def _jsonable(value: Any) -> Any:
    """A message as JSON has it: structures by field name, bytes as hexadecimal."""
    if isinstance(value, Struct):
        return {name: _jsonable(getattr(value, name)) for name in value.fields_}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    return value.hex() if isinstance(value, bytes) else value
