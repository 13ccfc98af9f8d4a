"""Runs one broker, or several, with a control port as a process: `coterie serve --control`.

The control port has the main thread and its event loop; the brokers have a thread of their own, as
in a test, so an answer waits for them and never the other way round.
"""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

from coterie import __version__
from coterie.address import LOOPBACK, Address
from coterie.control.application import ControlApplication
from coterie.control.console_control import ConsoleControl
from coterie.control.control import Control, ProcessControl
from coterie.control.operations import BROKER, MAX_WAIT_S, Table
from coterie.control.serving import Serving
from coterie.server.broker import Broker
from coterie.server.config.listeners import CannotListen
from coterie.server.file_handles import FileHandles
from coterie.server.listening import (
    CannotStart,
    listening_failed,
    port_option,
    try_listeners,
    try_port,
)
from coterie.server.network.http_access import HttpAccess
from coterie.server.network.http_server import Bounds, HttpServer
from coterie.server.operating_system import on_signals
from coterie.server.run import (
    EXIT_FAILED,
    EXIT_OK,
    Options,
    end_start,
    metrics_failed,
    prepared_log,
    run_process,
    signalled,
    start_beside,
    stop_beside,
    try_http_ports,
)
from coterie.testing.errors import BrokerLeak, BrokerNotStarted

if TYPE_CHECKING:
    from coterie.control.served import ServedBroker
    from coterie.control.served_cluster import ServedCluster
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
    """Run brokers until a signal, a fatal error or a request stops them; return the exit code."""
    return run_process(lambda handles: asyncio.run(_serve(options, control, handles)))


class Controlled(NamedTuple):
    """What the control port serves.

    Attributes:
        kafka: a broker, or several.
        control: what the port adds to it.
        table: the operations.
    """

    kafka: "ServedBroker | ServedCluster"
    control: ProcessControl
    table: Table


def _running(kafka: "ServedBroker | ServedCluster") -> Sequence[Broker]:
    """Return the brokers that run; none between a stop and a start."""
    try:
        return kafka.servers
    except BrokerNotStarted:
        return ()


async def _serve(options: Options, asked: ControlOptions, handles: FileHandles) -> int:
    stopping = signalled(with_input=options.stops_with_input)
    loop = asyncio.get_running_loop()
    await _try_ports(options, asked)
    log = prepared_log(options)
    fatal: list[str] = []

    def failed(reason: str) -> None:
        fatal.append(reason)
        loop.call_soon_threadsafe(stopping.set)

    kafka, control, table = _controlled(Serving(options, log, handles, failed))
    await _start(kafka, options)
    if kafka.has_certificates:
        on_signals(["SIGHUP"], kafka.reload_certificates)
    application = ControlApplication(
        control,
        asked.token,
        table,
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
        _announce(asked, kafka, server.address)
        addresses = Address.parse_list(kafka.bootstrap_servers, 0)
        running = partial(_running, kafka)
        beside = await start_beside(options, addresses, running, ConsoleControl(control))
        if beside:
            print(beside, flush=True)
        end_start()
        await stopping.wait()
    finally:
        await server.stop()
        await stop_beside(options)
        code = await _close(kafka, log)
    if fatal:
        log.error("broker failed", reason=fatal[0])
        code = EXIT_FAILED
    if asked.file not in (None, _STANDARD_OUTPUT):
        os.remove(str(asked.file))
    return code


def _controlled(serving: Serving) -> Controlled:
    """Return what is served; nothing is started yet."""
    # Either kind is imported only where it is served.
    if serving.options.brokers > 1:
        from coterie.control.cluster_control import ClusterControl
        from coterie.control.cluster_operations import CLUSTER
        from coterie.control.served_cluster import ServedCluster

        cluster = ServedCluster(serving)
        return Controlled(cluster, ClusterControl(cluster), CLUSTER)
    from coterie.control.served import ServedBroker

    broker = ServedBroker(serving)
    return Controlled(broker, Control(broker), BROKER)


async def _try_ports(options: Options, asked: ControlOptions) -> None:
    """Find out whether all ports are free before anything else happens.

    Raises:
        CannotStart: one is not.
    """
    if options.brokers > 1:
        from coterie.server.run_cluster import free_listeners

        await free_listeners(options)
    else:
        await try_listeners(options.place)
    await try_port(asked.address, "--control")
    await try_http_ports(options)


async def _close(kafka: "ServedBroker | ServedCluster", log: "Logger") -> int:
    """Close the broker; return the exit code."""
    try:
        await asyncio.to_thread(kafka.close)
    except BrokerLeak as leak:
        log.error("broker not closed cleanly", reason=str(leak))  # noqa: TRY400 - the text says all
        return EXIT_FAILED
    return EXIT_OK


async def _start(kafka: "ServedBroker | ServedCluster", options: Options) -> None:
    try:
        await asyncio.to_thread(kafka.start)
    except BrokerNotStarted as error:
        cause = error.__cause__
        if not isinstance(cause, CannotListen):
            raise CannotStart(str(error)) from error
        option = port_option(options.place)
        raise CannotStart(listening_failed(cause.address, option, cause)) from error
    except OSError as error:
        raise metrics_failed(options, error) from error


def _announce(asked: ControlOptions, kafka: "ServedBroker | ServedCluster", at: Address) -> None:
    """Say where brokers and control port are: in two lines, and as JSON where that is wanted.

    Raises:
        CannotStart: the file cannot be written.
    """
    kafka.print_ready()
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
