"""`coterie doctor`: what is missing on this machine, for each use of Coterie.

Nothing is installed, started or left behind. A data directory is only looked at: it is locked and
unlocked if it exists.
"""

import os
import platform
import shutil
import socket
from collections.abc import Callable
from importlib import metadata

import click

from coterie import __version__
from coterie.cli.check_rows import CHECK_COLUMNS, check_row, fail_if_any
from coterie.cli.options import json_option
from coterie.cli.output import Column, note, print_rows
from coterie.cli.values import WholeNumber
from coterie.installation import (
    Check,
    Requirement,
    extra_checks,
    form,
    gibibytes,
    missing,
    package_check,
)

# One log segment is 1 GiB by default, and a directory needs room for more than one.
MIN_DISK_BYTES = 2 << 30
# Ten clients with a few connections each, and the files of a few topics.
MIN_OPEN_FILES = 256

_COLUMNS = [Column("USE", "use", 8), *CHECK_COLUMNS]
# Client libraries that `client_config` of coterie.testing knows and that tests in Python use.
_CLIENTS = ("aiokafka", "confluent-kafka", "kafka-python")


def _serve(port: int, data_dir: str) -> list[Check]:
    python = f"{platform.python_version()}, {platform.platform()}"
    return [
        Check("Coterie", f"{__version__}, {form()} form", is_good=True),
        Check("Python", python, is_good=True),
        *extra_checks(None),
        _port_check(port),
        *_directory_checks(data_dir),
        _open_files_check(),
    ]


def _port_check(port: int) -> Check:
    with socket.socket() as listener:
        # A port of connections that were closed a moment ago can be used, as the server does.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            found = f"127.0.0.1:{port}: {error.strerror}"
            remedy = "stop the program that listens there, or use --port 0"
            return Check("port", found, is_good=False, remedy=remedy)
    return Check("port", f"127.0.0.1:{port} is free", is_good=True)


def _directory_checks(path: str) -> list[Check]:
    # Imported here, because `coterie --help` does without the server.
    from coterie.server.data_place import IN_MEMORY
    from coterie.storage.directory import LOCK_FILE
    from coterie.storage.system_files import system_files

    what = "data directory"
    if path == IN_MEMORY:
        return [Check(what, f"{path}, nothing is kept", is_good=True)]
    existing = os.path.abspath(path)
    while not os.path.isdir(existing):
        existing = os.path.dirname(existing)
    if not os.access(existing, os.W_OK | os.X_OK):
        found = f"{existing} is not writable by this user"
        return [Check(what, found, is_good=False, remedy="use --data-dir, or :memory: for it")]
    if os.path.exists(os.path.join(path, LOCK_FILE)):
        lock = system_files().lock(os.path.join(path, LOCK_FILE))
        if lock is None:
            found = f"{path} is in use by another broker"
            return [Check(what, found, is_good=False, remedy="stop it, or use another directory")]
        lock.release()
    free = shutil.disk_usage(existing).free
    remedy = "" if free >= MIN_DISK_BYTES else "use --data-dir with a larger disk, or :memory:"
    room = f"{gibibytes(free)} free in {existing}"
    return [
        Check(what, f"{path} can be used", is_good=True),
        Check("disk", room, is_good=not remedy, remedy=remedy, is_needed=False),
    ]


def _open_files_check() -> Check:
    # Imported here, because `coterie --help` does without the server.
    from coterie.server.file_handles import raise_limit

    limit = raise_limit()
    remedy = "" if limit >= MIN_OPEN_FILES else f"ulimit -n {MIN_OPEN_FILES}"
    found = f"up to {limit}"
    return Check("open files", found, is_good=not remedy, remedy=remedy, is_needed=False)


def _test(_port: int, _data_dir: str) -> list[Check]:
    pytest = package_check(Requirement("pytest", ((">=", (8,)),)), "pip install pytest")
    installed = [each for each in _CLIENTS if _is_installed(each)]
    names = ", ".join(_CLIENTS)
    found = ", ".join(f"{each} {metadata.version(each)}" for each in installed)
    clients = Check(
        "a client library",
        found or f"none of {names}",
        is_good=bool(found),
        remedy="" if found else f"pip install {_CLIENTS[0]}; clients in other languages do, too",
        is_needed=False,
    )
    return [pytest, clients]


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _secure(_port: int, _data_dir: str) -> list[Check]:
    return extra_checks("security")


def _pipeline(_port: int, _data_dir: str) -> list[Check]:
    # Imported here, because `coterie --help` does without the pipeline.
    from coterie.pipeline.doctor import checks

    return checks()


def _lab_live(_port: int, _data_dir: str) -> list[Check]:
    return extra_checks("lab-live")


# The uses, in the order in which people meet them.
USES: dict[str, tuple[str, Callable[[int, str], list[Check]]]] = {
    "serve": ("a local broker", _serve),
    "test": ("brokers in tests of services", _test),
    "secure": ("PKCS12 files, certificates and signed tokens", _secure),
    "pipeline": ("rebalance forensics", _pipeline),
    "lab-live": ("the old consumer of ZooKeeper, live", _lab_live),
}


@click.command("doctor")
@click.argument("uses", metavar="[USE...]", nargs=-1, type=click.Choice(list(USES)))
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    metavar="PORT",
    default=9092,
    show_default=True,
    help="Port of the broker.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    default="./coterie-data",
    show_default=True,
    help="Data directory of the broker.",
)
@json_option
def command(*, uses: tuple[str, ...], port: int, data_dir: str, as_json: bool) -> None:
    """Show what each use of Coterie needs, and the command that installs what is missing.

    USE is serve, test, secure, pipeline or lab-live. Without one all are shown, and the exit code
    is 1 only if the broker cannot start. With some it is 1 if one of these is not possible.
    """
    results = {use: USES[use][1](port, data_dir) for use in uses or USES}
    rows = [{"use": use, **check_row(each)} for use, found in results.items() for each in found]
    print_rows(_COLUMNS, rows, as_json=as_json)
    possible = [use for use, found in results.items() if not missing(found)]
    if not as_json:
        for use in results:
            note(f"{use} ({USES[use][0]}): {'possible' if use in possible else 'not possible'}")
    asked = uses or ("serve",)
    fail_if_any([each for use in asked for each in missing(results[use])])
