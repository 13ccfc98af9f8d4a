"""Runs one broker as a process: from options to an exit code.

Problems with the place where a broker starts (its ports, its data directory) are reported in one
line with a remedy. SIGTERM and SIGINT stop the broker in order; a second signal ends the process at
once.
"""

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from coterie import __version__
from coterie.address import Address
from coterie.server.allocator import keep_large_blocks
from coterie.server.beside import Beside, BrokerControl, bootstrap_of, inside_of
from coterie.server.broker import Broker
from coterie.server.code_pages import unmap_code_of_the_start
from coterie.server.config.config import Config
from coterie.server.config.listeners import CannotListen, Listener, SecurityProtocol
from coterie.server.config.place import Place
from coterie.server.config.sources import ConfigError
from coterie.server.data_place import IN_MEMORY
from coterie.server.environment import Environment
from coterie.server.file_handles import FileHandles, raise_limit, share_handles
from coterie.server.listening import (
    CannotStart,
    listening_failed,
    port_option,
    try_listeners,
    try_port,
)
from coterie.server.logging import make_logger, route_library_logs
from coterie.server.logs.flusher import FlushMode
from coterie.server.network.http_access import OPEN, HttpAccess
from coterie.server.operating_system import age_s, on_signals, run_on_fastest_loop
from coterie.server.releases import Release
from coterie.server.shared_parts import SharedParts
from coterie.server.watchdog import HeldLoop, Watchdog
from coterie.storage.errors import (
    CorruptLog,
    DirectoryLocked,
    StorageError,
    describe_error,
    remedy_for,
)
from coterie.storage.filesystem import FileSystem

if TYPE_CHECKING:
    from coterie.recording.files import RecordingOptions
    from coterie.recording.recorder import Recorder
    from coterie.security.acl import Acl
    from coterie.security.seeds import ScramSeed
    from coterie.server.logging import Logger
    from coterie.server.network.http_server import HttpServer

# The last is Ctrl+Break of Windows, the only one of these that a process there can send to another.
_STOPPING = ("SIGTERM", "SIGINT", "SIGBREAK")

EXIT_OK = 0
EXIT_FAILED = 1

# How many new objects start a search for reference cycles. Requests leave no cycles behind, so with
# Python's default of 700 the searches would find nothing and cost time. A search of 8,000 holds the
# event loop for two to ten milliseconds while thousands of groups are created, because each object
# is in a part of the memory that no cache has. A commit that waits for its append has 16, so with
# 4,000 each turn of 256 commits would be searched, which is a tenth of their cost.
_COLLECT_AFTER = 6_000
# After so many of these searches the next one also takes what has survived them. With Python's
# default of 10 it would have ten times as many objects, and hold the event loop for 70 ms when
# thousands of groups are created. Full searches stay as rare as with the defaults.
_COLLECT_MIDDLE_AFTER = 1
_COLLECT_ALL_AFTER = 275


class Options(NamedTuple):
    """The options of `coterie serve`, as far as they can be checked without starting.

    Attributes:
        place: where to listen and where to keep data.
        config: the settings.
        flush: when the disk is synced.
        log_level, log_format: see `make_logger`.
        started: when the command began, by the monotonic clock.
        metrics_port: the port of GET /metrics; None to serve no metrics.
        http: how the ports of metrics and of the control are secured.
        recording: what to record, and where; None to record nothing.
        stops_with_input: whether the end of standard input stops the broker.
        release: the release of Kafka to pretend to be; None to be itself.
        features: levels of features to start with, by name.
        users: users to add, with their SCRAM credentials.
        acls: access rules to add; there is an authorizer if there are any.
        announcement: text to print when the broker is ready.
        brokers: how many brokers there are.
        beside: what runs besides them; None for nothing.
    """

    place: Place
    config: Config
    flush: FlushMode
    log_level: str
    log_format: str
    started: float
    metrics_port: int | None = None
    http: HttpAccess = OPEN
    recording: "RecordingOptions | None" = None
    stops_with_input: bool = False
    release: Release | None = None
    features: Mapping[str, int] = {}
    users: "Sequence[ScramSeed]" = ()
    acls: "Sequence[Acl]" = ()
    announcement: str = ""
    brokers: int = 1
    beside: Beside | None = None

    @property
    def metrics_address(self) -> Address:
        """Where the metrics are served, if they are; port 0 is a free one."""
        return Address(self.place.host, self.metrics_port or 0)


def run(options: Options) -> int:
    """Run a broker until a signal or a fatal error stops it; return the exit code."""
    return run_process(lambda handles: run_on_fastest_loop(_serve(options, handles)))


def run_process(serve: Callable[[FileHandles], int]) -> int:
    """Prepare this process for a broker and run it; return the exit code."""
    keep_large_blocks()
    handles = share_handles(raise_limit())
    try:
        return serve(handles)
    except CannotStart as reason:
        print(f"coterie serve: {reason}", file=sys.stderr)
        return EXIT_FAILED


async def _serve(options: Options, handles: FileHandles) -> int:
    stopping = signalled(with_input=options.stops_with_input)
    await try_listeners(options.place)
    await try_http_ports(options)
    log = prepared_log(options)
    environment = Environment.of_process(log)
    broker = open_broker(options, environment, handles)
    try:
        recorder = begin_recorder(options, environment, {broker.node_id: options.place.listeners})
    except CannotStart:
        await _stop(broker)
        raise
    record(recorder, broker)
    broker.fatal.add_done_callback(lambda _: stopping.set())
    place = options.place
    metrics: HttpServer | None = None
    try:
        if options.metrics_port is not None:
            # Imported here, because most brokers serve no metrics and start faster without.
            from coterie.server.metrics.serving import serve_metrics

            metrics = await serve_metrics(lambda: broker, options.metrics_address, options.http)
        addresses = await broker.start(place.listeners)
        beside = await start_beside(options, addresses[:1], lambda: [broker])
    except CannotListen as error:
        await _stop(broker, metrics, recorder)
        option = port_option(place)
        raise CannotStart(listening_failed(error.address, option, error)) from error
    except OSError as error:
        await _stop(broker, metrics, recorder)
        raise metrics_failed(options, error) from error
    except (ConfigError, CannotStart) as error:
        await _stop(broker, metrics, recorder)
        raise CannotStart(str(error)) from error
    print_ready(options, addresses)
    if metrics is not None:
        print_metrics(options, metrics.address)
    if beside:
        print(beside, flush=True)
    if broker.tls_listeners:
        from coterie.server.tls.certificates import reload_certificates

        on_signals(["SIGHUP"], reload_certificates, broker)
    end_start()
    watchdog = watch(broker)
    await stopping.wait()
    if watchdog is not None:
        watchdog.stop()
    code = EXIT_OK
    if broker.fatal.done():
        log.error("broker failed", reason=broker.fatal.result())
        code = EXIT_FAILED
    await stop_beside(options)
    await _stop(broker, metrics, recorder)
    return code


def end_start() -> None:
    """Keep the objects of the start from searches for reference cycles, and unmap its code."""
    # Without a last search, which would hold the first requests for 10 ms and find 50 KB.
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, _COLLECT_MIDDLE_AFTER, _COLLECT_ALL_AFTER)
    unmap_code_of_the_start()


def print_ready(options: Options, addresses: Sequence[Address]) -> None:
    """Print the line that says where the broker listens; `addresses` are those of its listeners."""
    place = options.place
    listening = ", ".join(
        str(address) if is_plain(place) else f"{each.name}://{address}"
        for each, address in zip(place.listeners, addresses, strict=True)
    )
    print_ready_on(options, listening)


def print_ready_on(options: Options, listening: str, brokers: str = "") -> None:
    """Print the line of a start, and what the options announce.

    Args:
        options: where the data is, and when the process was started.
        listening: the addresses.
        brokers: how many there are, with a comma; nothing about a single one.
    """
    data_dir = options.place.data_dir
    where = "memory" if data_dir == IN_MEMORY else data_dir
    print(
        f"coterie {__version__} ready on {listening} ({brokers}data in {where},"
        f" flush {options.flush}) in {age_s(options.started):.2f} s",
        flush=True,
    )
    if options.announcement:
        print(options.announcement, flush=True)


def print_metrics(options: Options, address: Address) -> None:
    """Print the line that says where the metrics are."""
    print(f"metrics on {options.http.scheme}://{address}/metrics", flush=True)


def metrics_failed(options: Options, error: OSError) -> CannotStart:
    """Return why the metrics cannot be served."""
    return CannotStart(listening_failed(options.metrics_address, "--metrics-port", error))


async def try_http_ports(options: Options) -> None:
    """Find out whether the ports of metrics and console can be used; see `try_port`."""
    await try_port(options.metrics_address, "--metrics-port")
    if options.beside is not None:
        await try_port(options.beside.address, options.beside.option)


async def start_beside(
    options: Options,
    addresses: Sequence[Address],
    brokers: Callable[[], Iterable[Broker]],
    control: BrokerControl | None = None,
) -> str:
    """Start what runs besides the brokers, and return the line that says where it is.

    Args:
        options: the options.
        addresses: the first listener of each broker.
        brokers: returns those that run.
        control: that of the brokers; None if they have none.

    Raises:
        CannotStart: its port cannot be used.
    """
    if options.beside is None:
        return ""
    try:
        bootstrap = bootstrap_of(list(addresses))
        flush = str(options.flush)
        start = options.beside.start
        return await asyncio.to_thread(start, bootstrap, control, inside_of(brokers, flush))
    except OSError as error:
        text = listening_failed(options.beside.address, options.beside.option, error)
        raise CannotStart(text) from error


async def stop_beside(options: Options) -> None:
    """Stop what runs besides the brokers."""
    if options.beside is not None:
        await asyncio.to_thread(options.beside.stop)


def is_plain(place: Place) -> bool:
    """Return whether there is one listener, without security, which --port could describe."""
    return len(place.listeners) == 1 and (place.listeners[0].protocol is SecurityProtocol.PLAINTEXT)


async def _stop(
    broker: Broker, metrics: "HttpServer | None" = None, recorder: "Recorder | None" = None
) -> None:
    if metrics is not None:
        await metrics.stop()
    await broker.stop()
    if recorder is not None:
        recorder.close()


def begin_recorder(
    options: Options, environment: Environment, listeners: Mapping[int, Sequence[Listener]]
) -> "Recorder | None":
    """Begin to record what connections see at listeners of brokers, if that is wanted.

    The environment is that of the recorder, which may outlive a broker.

    Raises:
        CannotStart: the file cannot be written.
    """
    recording = options.recording
    if recording is None:
        return None
    # Imported here, because most brokers record nothing and start faster without.
    from coterie.recording.format import NotARecording
    from coterie.recording.serving import record_brokers

    firsts = {node_id: each[0] for node_id, each in listeners.items()}
    addresses = {node_id: str(each.advertised or each.address) for node_id, each in firsts.items()}
    try:
        return record_brokers(environment, options.config, recording, addresses)
    except (OSError, NotARecording) as error:
        reason = describe_error(error) if isinstance(error, OSError) else str(error)
        text = f"--record {recording.path}: {reason}; choose another file"
        raise CannotStart(text) from error


def record(recorder: "Recorder | None", broker: Broker) -> None:
    """Record the connections that a broker accepts from now on, if there is a recorder."""
    if recorder is not None:
        from coterie.recording.serving import record_connections

        record_connections(recorder, broker)


def watch(broker: Broker) -> Watchdog | None:
    """Warn when the event loop is held for too long, if that is wanted."""
    limit_ms = broker.config.get_int("event.loop.warning.ms")
    if not limit_ms:
        return None

    def warn(held: HeldLoop) -> None:
        broker.log.warning(
            "event loop held",
            milliseconds=held.held_ms,
            cpu_milliseconds=held.cpu_ms,
            culprit=held.culprit or "unknown",
            stack=" < ".join(held.stack),
        )

    watchdog = Watchdog(broker.loop, warn, limit_ms)
    watchdog.start()
    return watchdog


def prepared_log(options: Options) -> "Logger":
    """Return the log; log which settings are replaced by options, and which have no effect."""
    log = make_logger(options.log_level, options.log_format)
    route_library_logs(log)
    _log_settings(options, log)
    return log


def _log_settings(options: Options, log: "Logger") -> None:
    for sentence in options.place.replaced:
        log.info("setting replaced", reason=sentence)
    if not options.config.given_names:
        return
    # Most brokers start without settings of their own, and faster without this import.
    from coterie.server.config.effects import without_effect
    from coterie.server.config.weaknesses import weaknesses

    for sentence in weaknesses(options.config, options.place.listeners):
        log.warning("weak setting", reason=sentence)
    names = without_effect(options.config, options.brokers)
    if names:
        log.warning("settings without effect", count=len(names), settings=", ".join(names))


def signalled(*, with_input: bool = False) -> asyncio.Event:
    """Return an event that SIGTERM, SIGINT and, if that is wanted, the end of the input set."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            # A second signal: the user does not want to wait for the orderly stop.
            os._exit(EXIT_FAILED)
        stopping.set()

    on_signals(_STOPPING, stop)
    if with_input:
        # A thread, because an event loop cannot wait for every kind of file.
        threading.Thread(
            target=_read_to_end, args=(loop, stopping.set), name="coterie-stdin", daemon=True
        ).start()
    return stopping


def _read_to_end(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Read standard input until it ends, which it does when the process at its other end ends."""
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        # It was closed before the start.
        pass
    with suppress(RuntimeError):  # the loop has ended by itself
        loop.call_soon_threadsafe(stop)


def open_broker(
    options: Options,
    environment: Environment,
    handles: FileHandles,
    filesystem: FileSystem | None = None,
) -> Broker:
    """Open the data directory of a broker.

    Args:
        options: say where it is.
        environment: of the broker.
        handles: how many files and connections may be open.
        filesystem: see `Broker`.

    Raises:
        CannotStart: it cannot be used.
    """
    broker = Broker(open_shared_parts(options, environment, handles, filesystem))
    if options.release is not None:
        broker.pretend(options.release)
    return broker


def open_shared_parts(
    options: Options,
    environment: Environment,
    handles: FileHandles,
    filesystem: FileSystem | None = None,
) -> SharedParts:
    """Open the data directory, with features, users and rules of the options; see `open_broker`."""
    data_dir = options.place.data_dir
    other = "use another directory with --data-dir, or --data-dir :memory:"
    try:
        shared = SharedParts(
            options.config,
            data_dir,
            environment,
            flush=options.flush,
            handles=handles,
            filesystem=filesystem,
            files_are_private=filesystem is not None and data_dir == IN_MEMORY,
            brokers=options.brokers,
        )
        shared.features.start_with(options.features)
    except DirectoryLocked:
        text = f"the data directory {data_dir} is in use by another broker; stop it, or {other}"
        raise CannotStart(text) from None
    except StorageError as error:
        text = f"the data directory can't be used: {error}; {_damage_remedy(error)}{other}"
        raise CannotStart(text) from error
    except OSError as error:
        text = f"the data directory {data_dir} can't be written: {describe_error(error)}; {other}"
        raise CannotStart(text) from error
    if options.users or options.acls:
        # Most starts add nothing.
        from coterie.server.security.seeding import add_seeds

        add_seeds(shared, options.users, options.acls)
    return shared


def _damage_remedy(error: StorageError) -> str:
    return f"{remedy_for(error)}; or " if isinstance(error, CorruptLog) else ""
