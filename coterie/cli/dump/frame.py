"""`coterie dump frame`: a frame of the protocol, field by field."""

import re
import sys
from typing import Any

import click

from coterie.cli.dump.apis import api_name, api_named
from coterie.cli.dump.frames import ResponseTo, decode_frame, frame_pieces, split_frames
from coterie.cli.errors import CommandFailed
from coterie.cli.output import print_json, print_line
from coterie.protocol.api_keys import declared_versions
from coterie.protocol.errors import DECODE_ERRORS

_LINE_BYTES = 16
# The number of lines of one long value (records, metadata) that are shown without --full.
_VALUE_LINES = 4


@click.command("frame")
@click.argument("hexadecimal", metavar="HEX...|-", nargs=-1, required=True)
@click.option(
    "--response-to",
    metavar="API:VERSION",
    help="Read the frame as a response to this request; a response does not name its API.",
)
@click.option("--full", is_flag=True, help="Show long values completely.")
@click.option("--json", "as_json", is_flag=True, help="Print the decoded messages as JSON.")
def command(
    *, hexadecimal: tuple[str, ...], response_to: str | None, full: bool, as_json: bool
) -> None:
    """Print the bytes of a request or response frame with the fields they encode.

    The frame is given in hexadecimal, or with - on standard input, in hexadecimal or as raw bytes.
    The length prefix is optional; with length prefixes several frames can follow one another. A
    malformed frame is printed up to the first wrong byte, and the exit code is 1.
    """
    data = _read_input() if hexadecimal == ("-",) else _from_hex("".join(hexadecimal))
    request = None if response_to is None else _response_to(response_to)
    decoded_frames: list[Any] = []
    for n, (start, end) in enumerate(split_frames(data)):
        frame = data[start:end]
        if as_json:
            try:
                decoded_frames.append(decode_frame(frame, request))
            except DECODE_ERRORS as error:
                raise CommandFailed(f"Malformed frame: {error}.") from error
            continue
        if n:
            click.echo()
        pieces, problem = frame_pieces(frame, request)
        for piece in pieces:
            _print_bytes(frame[piece.start : piece.end], "  " * piece.depth + piece.text, full=full)
        if problem:
            rest = pieces[-1].end if pieces else 0
            _print_bytes(frame[rest:], "not decoded", full=full)
            raise CommandFailed(f"Malformed at byte {rest}: {problem}.")
    if as_json:
        print_json(decoded_frames)


def _response_to(text: str) -> ResponseTo:
    """Return the request that the value of --response-to names.

    Raises:
        click.UsageError: the version is missing or unknown.
    """
    api, _, number = text.partition(":")
    key = api_named(api)
    first, last = declared_versions(key)
    if not number.isdigit() or not first <= int(number) <= last:
        raise click.UsageError(
            f"Invalid value for --response-to: {text!r} is not between {api_name(key)}:{first} and "
            f"{api_name(key)}:{last}."
        )
    return ResponseTo(key, int(number))


def _read_input() -> bytes:
    """Return standard input, decoded if it is hexadecimal."""
    data = sys.stdin.buffer.read()
    try:
        return _from_hex(data.decode("ascii"))
    except (UnicodeDecodeError, click.UsageError):
        return data


def _from_hex(text: str) -> bytes:
    """Return bytes from hexadecimal, which may contain spaces, colons, commas, 0x and \\x.

    Raises:
        click.UsageError: the text is not hexadecimal.
    """
    digits = re.sub(r"0x|\\x|[\s:,]", "", text)
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise click.UsageError("The frame is not hexadecimal.") from error


def _print_bytes(data: bytes, text: str, *, full: bool) -> None:
    """Print bytes in hexadecimal with a text beside the first line."""
    lines = [data[at : at + _LINE_BYTES] for at in range(0, len(data), _LINE_BYTES)] or [b""]
    shown = lines if full else lines[:_VALUE_LINES]
    for n, line in enumerate(shown):
        cell = line.hex(" ").ljust(_LINE_BYTES * 3 + 1)
        print_line([(cell, "cyan"), (text if n == 0 else "", "")])
    if len(lines) > len(shown):
        print_line([(f"... {len(data) - len(shown) * _LINE_BYTES} more bytes (--full)", "dim")])
