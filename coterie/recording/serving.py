"""`coterie serve --record`: lets a broker record its connections."""

from collections.abc import Mapping

from coterie import __version__
from coterie.recording.files import RecordingOptions
from coterie.recording.format import Header
from coterie.recording.recorded_connection import RecordedConnection
from coterie.recording.recorder import Recorder
from coterie.recording.redaction import HIDDEN
from coterie.server.broker import Broker
from coterie.server.config.config import Config
from coterie.server.config.kafka_keys import find_key
from coterie.server.environment import Environment
from coterie.server.shared_parts import SharedParts

PROGRAM = f"coterie {__version__}"


def record_broker(broker: Broker, options: RecordingOptions, address: str) -> Recorder:
    """Record the connections that a broker accepts from now on; the caller closes the recorder.

    Args:
        broker: a broker that was not started yet.
        options: what to record.
        address: the address that clients connect to.

    Raises:
        OSError, NotARecording: the file cannot be written.
    """
    environment = broker.environment
    settings = shown_settings(broker.config)
    recorder = begin_recording(environment, options, address, settings=settings)
    broker.around_connections = lambda connection: RecordedConnection(recorder, connection)
    return recorder


def record_brokers(
    shared: SharedParts, options: RecordingOptions, addresses: Mapping[int, str]
) -> Recorder:
    """Begin the recording of several brokers in one file; `record_one_of_several` adds each.

    Args:
        shared: what the brokers share.
        options: what to record.
        addresses: the addresses that clients connect to, by the ids of the brokers.

    Raises:
        OSError, NotARecording: the file cannot be written.
    """
    return begin_recording(
        shared.environment,
        options,
        next(iter(addresses.values())),
        settings=shown_settings(shared.config),
        brokers={str(node_id): address for node_id, address in addresses.items()},
    )


def record_one_of_several(recorder: Recorder, broker: Broker) -> None:
    """Record the connections that one of several brokers accepts from now on."""
    broker.around_connections = lambda connection: RecordedConnection(
        recorder, connection, broker.node_id
    )


def begin_recording(
    environment: Environment,
    options: RecordingOptions,
    address: str,
    *,
    settings: dict[str, str],
    upstream: str | None = None,
    brokers: dict[str, str] | None = None,
) -> Recorder:
    """Begin a recording, with a header that describes the program.

    Raises:
        OSError, NotARecording: the file cannot be written.
    """
    header = Header(
        recording=environment.new_uuid_text(),
        number=1,
        started_ms=environment.now_ms(),
        program=PROGRAM if upstream is None else f"{PROGRAM} proxy",
        address=address,
        upstream=upstream,
        settings=settings,
        with_payloads=options.with_payloads,
        brokers=brokers,
    )
    return Recorder(environment, options.path, header, options.limits)


def shown_settings(config: Config) -> dict[str, str]:
    """Return the settings that a broker was given, without secrets."""
    shown = {}
    for name in sorted(config.given_names):
        key = find_key(name)
        is_secret = key is None or key.is_sensitive
        shown[name] = HIDDEN if is_secret else config.text(name) or ""
    return shown
