"""`coterie dump security`: what the security log of a data directory says, without keys.

The file is only read, so a running broker may use the directory.
"""

import os
from collections.abc import Iterator

import click

from coterie.cli.errors import CommandFailed
from coterie.cli.output import Row, print_json, print_line, printable
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.security_records import SecurityRecord, decode_security_record
from coterie.protocol.records import BatchHeader, check_crc, decode_records, iterate_batches
from coterie.storage.record_file import SECURITY_LOG

HIDDEN = "[hidden]"
# Fields with which somebody could try passwords, or log in.
_SECRETS = frozenset({"salt", "stored_key", "server_key", "token_id"})
_FILE = "{}-{}".format(*SECURITY_LOG)


@click.command("security")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(*, paths: tuple[str, ...], as_json: bool) -> None:
    """Print the users, rules and tokens that a data directory keeps, in the order of their changes.

    PATH is a data directory, or the file coterie.security-0 in one. Keys, salts and ids of tokens
    are not shown.
    """
    for path in paths:
        file = os.path.join(path, _FILE) if os.path.isdir(path) else path
        for row in _rows(file):
            if as_json:
                print_json(row, one_line=True)
            else:
                fields = [f"{name}={value}" for name, value in row.items() if name != "record"]
                print_line([(str(row["record"]), "bold"), (f"  {'  '.join(fields)}", "")])


def _rows(path: str) -> Iterator[Row]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise CommandFailed(
            f"{printable(path)} can't be read: {error.strerror}.",
            f"A data directory has users and rules in {_FILE} once there are some.",
        ) from error
    try:
        for position, header in iterate_batches(data):
            _check(data, header, position)
            for record in decode_records(data, header, position):
                yield _row(record.offset, decode_security_record(record.value or b""))
    except MalformedFrame as error:
        raise CommandFailed(
            f"{printable(path)} is damaged: {error}.",
            "If a broker writes it at this moment, try again.",
        ) from error


def _check(data: bytes, header: BatchHeader, position: int) -> None:
    if not check_crc(data, header, position):
        raise MalformedFrame(f"the checksum of the batch at byte {position} is wrong")


def _row(offset: int, record: SecurityRecord) -> Row:
    row: Row = {"offset": offset, "record": type(record).__name__.removesuffix("Record")}
    for name in record.fields_:
        value = getattr(record, name)
        if name in _SECRETS:
            row[name] = HIDDEN
        elif isinstance(value, bytes):
            row[name] = value.hex()
        elif isinstance(value, list):
            row[name] = [printable(each) for each in value]
        else:
            row[name] = printable(value) if isinstance(value, str) else value
    return row
