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

PROGRAM = f"coterie {__version__}"


def record_brokers(
    environment: Environment,
    config: Config,
    options: RecordingOptions,
    addresses: Mapping[int, str],
) -> Recorder:
    """Begin the recording of one broker or several in one file; the caller closes the recorder.

    Args:
        environment: of the recorder, which may outlive a broker.
        config: the settings of the brokers.
        options: what to record.
        addresses: the addresses that clients connect to, by the ids of the brokers.

    Raises:
        OSError, NotARecording: the file cannot be written.
    """
    named = {str(node_id): address for node_id, address in addresses.items()}
    return begin_recording(
        environment,
        options,
        next(iter(addresses.values())),
        settings=shown_settings(config),
        brokers=named if len(named) > 1 else None,
    )


def record_connections(recorder: Recorder, broker: Broker) -> None:
    """Record the connections that a broker accepts from now on; one of several is named."""
    node_id = None if broker.leadership is None else broker.node_id
    broker.around_connections = lambda connection: RecordedConnection(recorder, connection, node_id)


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
