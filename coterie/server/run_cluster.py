"""Runs several brokers as one process: `coterie serve --brokers N`.

Broker 1 listens at the given ports, and each further one at the next ports. If one of them cannot
be used, nothing has been started or written.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.address import Address
from coterie.server.broker import Broker
from coterie.server.brokers import Cluster
from coterie.server.config.listeners import CannotListen, Listener
from coterie.server.config.place import Place
from coterie.server.config.sources import ConfigError
from coterie.server.environment import Environment
from coterie.server.file_handles import FileHandles
from coterie.server.listening import (
    CannotStart,
    listening_failed,
    port_option,
    try_listeners,
)
from coterie.server.operating_system import on_signals, run_on_fastest_loop
from coterie.server.run import (
    EXIT_FAILED,
    EXIT_OK,
    Options,
    begin_recorder,
    end_start,
    metrics_failed,
    open_shared_parts,
    prepared_log,
    print_metrics,
    print_ready_on,
    record,
    run_process,
    signalled,
    start_beside,
    stop_beside,
    try_http_ports,
    watch,
)

if TYPE_CHECKING:
    from coterie.recording.recorder import Recorder
    from coterie.server.network.http_server import HttpServer

_HIGHEST_PORT = 65_535


def run_cluster(options: Options) -> int:
    """Run brokers until a signal or a fatal error stops them; return the exit code."""
    return run_process(lambda handles: run_on_fastest_loop(_serve(options, handles)))


async def _serve(options: Options, handles: FileHandles) -> int:
    """Run the brokers until a signal or a fatal error stops them; return the exit code.

    Raises:
        CannotStart: an address or the data directory cannot be used.
    """
    stopping = signalled(with_input=options.stops_with_input)
    place = options.place
    listeners = await free_listeners(options)
    await try_http_ports(options)
    log = prepared_log(options)
    shared = open_shared_parts(options, Environment.of_process(log), handles)
    by_node = dict(zip(shared.node_ids, listeners, strict=True))
    try:
        recorder = begin_recorder(options, shared.environment, by_node)
    except CannotStart:
        shared.close()
        raise

    def prepare(broker: Broker) -> None:
        if options.release is not None:
            broker.pretend(options.release)
        record(recorder, broker)

    cluster = Cluster(shared, prepare=prepare)
    fatal = shared.failures.fatal
    fatal.add_done_callback(lambda _: stopping.set())
    metrics: HttpServer | None = None
    try:
        if options.metrics_port is not None:
            # Imported here, because most brokers serve no metrics and start faster without.
            from coterie.server.metrics.serving import serve_cluster_metrics

            metrics = await serve_cluster_metrics(
                lambda: cluster, options.metrics_address, options.http
            )
        started = await cluster.start(by_node)
        firsts = [addresses[0] for addresses in started.values()]
        beside = await start_beside(options, firsts, lambda: list(cluster.brokers.values()))
    except CannotListen as error:
        await _stop(cluster, metrics, recorder)
        text = listening_failed(error.address, port_option(place), error)
        raise CannotStart(text) from error
    except OSError as error:
        await _stop(cluster, metrics, recorder)
        raise metrics_failed(options, error) from error
    except (ConfigError, CannotStart) as error:
        await _stop(cluster, metrics, recorder)
        raise CannotStart(str(error)) from error
    first = cluster.brokers[shared.node_ids[0]]
    print_brokers_ready(options, firsts)
    if metrics is not None:
        print_metrics(options, metrics.address)
    if beside:
        print(beside, flush=True)
    if first.tls_listeners:
        on_signals(["SIGHUP"], _reload_certificates, cluster)
    end_start()
    watchdog = watch(first)
    await stopping.wait()
    if watchdog is not None:
        watchdog.stop()
    code = EXIT_OK
    if fatal.done():
        log.error("brokers failed", reason=fatal.result())
        code = EXIT_FAILED
    await stop_beside(options)
    await _stop(cluster, metrics, recorder)
    return code


def _reload_certificates(cluster: Cluster) -> None:
    from coterie.server.tls.certificates import reload_certificates

    for broker in cluster.brokers.values():
        reload_certificates(broker)


async def _stop(
    cluster: Cluster, metrics: "HttpServer | None", recorder: "Recorder | None"
) -> None:
    if metrics is not None:
        await metrics.stop()
    await cluster.stop()
    if recorder is not None:
        recorder.close()


async def free_listeners(options: Options) -> list[tuple[Listener, ...]]:
    """Return where the brokers listen, after finding out whether all of their ports are free.

    Raises:
        CannotStart: one is not.
    """
    place = options.place
    listeners = [listeners_of(place, number) for number in range(options.brokers)]
    for each in listeners:
        await try_listeners(place._replace(listeners=each))
    return listeners


def print_brokers_ready(options: Options, addresses: Sequence[Address]) -> None:
    """Print the line that says where the brokers listen: the first listener of each."""
    bootstrap = ",".join(map(str, addresses))
    print_ready_on(options, bootstrap, f"{len(addresses)} brokers, ")


def listeners_of(place: Place, number: int) -> tuple[Listener, ...]:
    """Return where a broker listens: at the ports of the first one and its number, counted from 0.

    Raises:
        CannotStart: there is no such port.
    """
    return tuple(
        each._replace(
            address=_moved(each.address, number),
            advertised=None if each.advertised is None else _moved(each.advertised, number),
        )
        for each in place.listeners
    )


def _moved(address: Address, by: int) -> Address:
    if not address.port:
        # Each gets a free one.
        return address
    if address.port + by > _HIGHEST_PORT:
        text = f"port {address.port + by} does not exist; choose a lower one with --port, or 0"
        raise CannotStart(text)
    return address._replace(port=address.port + by)
