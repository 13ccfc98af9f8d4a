"""Runs one broker with a control port as a process: `coterie serve --control`.

The control port has the main thread and its event loop; the broker has a thread of its own, as in
a test, so an answer waits for the broker and never the other way round.
"""

import asyncio
import json
import os
import secrets
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple, Self

from coterie import __version__
from coterie.address import LOOPBACK, Address
from coterie.control.application import ControlApplication
from coterie.control.control import Control
from coterie.control.operations import MAX_WAIT_S
from coterie.control.served import ServedBroker
from coterie.server.config.listeners import CannotListen
from coterie.server.file_handles import FileHandles
from coterie.server.network.http_access import HttpAccess
from coterie.server.network.http_server import Bounds, HttpServer
from coterie.server.run import (
    EXIT_FAILED,
    EXIT_OK,
    CannotStart,
    Options,
    end_start,
    listening_failed,
    port_option,
    prepared_log,
    print_ready,
    run_process,
    signalled,
    try_listeners,
    try_port,
)
from coterie.testing.errors import BrokerLeak, BrokerNotStarted

if TYPE_CHECKING:
    from coterie.server.logging import Logger

# Tests run some at a time, each with a wait or two. A wait may take its time.
BOUNDS = Bounds(connections=64, request_s=10.0, answer_s=MAX_WAIT_S + 30)

_TOKEN_BYTES = 24
_STANDARD_OUTPUT = "-"


class ControlOptions(NamedTuple):
    """The options of the control port.

    Attributes:
        host, port: its address; port 0 for a free one.
        token: what clients send.
        is_random: whether the token was made here, and is printed for that reason.
        file: where to write how to reach it; None for nowhere.
        certificate: a PEM file for TLS; None for plain HTTP.
    """

    host: str
    port: int
    token: str
    is_random: bool
    file: str | None
    certificate: str | None

    @classmethod
    def of(
        cls,
        port: int,
        token: str | None,
        file: str | None,
        host: str = LOOPBACK[0],
        certificate: str | None = None,
    ) -> Self:
        """Return them from what was given.

        Raises:
            ValueError: the token cannot be sent in a header, or other machines could use the port.
        """
        is_random = token is None
        if token is None:
            token = secrets.token_urlsafe(_TOKEN_BYTES)
        elif not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError(
                "--control-token: a token is of printable ASCII characters without spaces"
            )
        access = HttpAccess(certificate, token)
        access.check(host, "--control", "--control-token")
        return cls(host, port, token, is_random, file, certificate)

    @property
    def address(self) -> Address:
        """Where the port is to listen."""
        return Address(self.host, self.port)


def run_controlled(options: Options, control: ControlOptions) -> int:
    """Run a broker until a signal, a fatal error or a request stops it; return the exit code."""
    return run_process(lambda handles: asyncio.run(_serve(options, control, handles)))


async def _serve(options: Options, asked: ControlOptions, handles: FileHandles) -> int:
    stopping = signalled(with_input=options.stops_with_input)
    loop = asyncio.get_running_loop()
    await try_listeners(options.place)
    await try_port(asked.address, "--control")
    log = prepared_log(options)
    fatal: list[str] = []

    def failed(reason: str) -> None:
        fatal.append(reason)
        loop.call_soon_threadsafe(stopping.set)

    kafka = ServedBroker(options, log, handles, failed)
    await _start(kafka, options)
    if kafka.server.tls_listeners:
        loop.add_signal_handler(signal.SIGHUP, kafka.reload_certificates)
    application = ControlApplication(
        Control(kafka),
        asked.token,
        is_local=asked.host in LOOPBACK,
        when_closed=stopping.set,
        report_failure=lambda error: log.error("control request failed", exc_info=error),
    )
    server = HttpServer(application, loop, BOUNDS, asked.certificate)
    try:
        await server.start(*asked.address)
    except OSError as error:
        await asyncio.to_thread(kafka.close)
        raise CannotStart(listening_failed(asked.address, "--control", error)) from error
    try:
        _announce(options, asked, kafka, server.address)
        end_start()
        await stopping.wait()
    finally:
        await server.stop()
        code = await _close(kafka, log)
    if fatal:
        log.error("broker failed", reason=fatal[0])
        code = EXIT_FAILED
    if asked.file not in (None, _STANDARD_OUTPUT):
        os.remove(str(asked.file))
    return code


async def _close(kafka: ServedBroker, log: "Logger") -> int:
    """Close the broker; return the exit code."""
    try:
        await asyncio.to_thread(kafka.close)
    except BrokerLeak as leak:
        log.error("broker not closed cleanly", reason=str(leak))  # noqa: TRY400 - the text says all
        return EXIT_FAILED
    return EXIT_OK


async def _start(kafka: ServedBroker, options: Options) -> None:
    try:
        await asyncio.to_thread(kafka.start)
    except BrokerNotStarted as error:
        cause = error.__cause__
        if not isinstance(cause, CannotListen):
            raise
        option = port_option(options.place)
        raise CannotStart(listening_failed(cause.address, option, cause)) from error


def _announce(options: Options, asked: ControlOptions, kafka: ServedBroker, at: Address) -> None:
    """Say where broker and control port are: in two lines, and as JSON where that is wanted.

    Raises:
        CannotStart: the file cannot be written.
    """
    print_ready(options, kafka.addresses)
    # A token that was given is known where it is needed, and does not belong into logs.
    token = f", token {asked.token}" if asked.is_random else ""
    url = f"{HttpAccess(asked.certificate).scheme}://{at}"
    print(f"control on {url}{token}", flush=True)
    if asked.file is None:
        return
    found = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "control_url": url,
        "token": asked.token,
        "pid": os.getpid(),
        "version": __version__,
    }
    text = json.dumps(found) + "\n"
    if asked.file == _STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        _write(asked.file, text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotStart(f"--control-file {asked.file} can't be written: {reason}") from error


def _write(path: str, text: str) -> None:
    """Write a file that only this user can read, whole at once."""
    unfinished = f"{path}.{os.getpid()}"
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(unfinished, path)
