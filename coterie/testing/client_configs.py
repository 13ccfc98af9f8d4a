"""The settings with which clients of the usual libraries reach a broker of a test.

Timeouts are shorter than the libraries' defaults, because broker and client are on one machine.
"""

from collections.abc import Mapping
from typing import Any

from coterie.testing.errors import WrongUse

# The protocols of groups.
CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
STREAMS = "streams"

_KIPS = {CONSUMER: "KIP-848", SHARE: "KIP-932", STREAMS: "KIP-1071"}
# Java's names of settings are those of librdkafka but for security. No Python library has Streams.
CONFLUENT, KAFKA_STREAMS = "confluent-kafka", "kafka-streams"
_SPEAKERS = {CONSUMER: CONFLUENT, SHARE: CONFLUENT, STREAMS: KAFKA_STREAMS}
# librdkafka refuses them for members of other protocols: the broker decides about these times.
_CLASSIC_ONLY = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")

_SESSION_TIMEOUT_MS = 6_000
_HEARTBEAT_INTERVAL_MS = 500
_REFRESH_MS = 1_000
_COMMIT_INTERVAL_MS = 500


def client_config(
    library: str,
    bootstrap_servers: str,
    group_id: str | None,
    more: Mapping[str, Any],
    protocol: str = CLASSIC,
) -> dict[str, Any]:
    """Return the settings of a client; see `Broker.client_config`."""
    build = _LIBRARIES.get(library)
    if build is None:
        raise WrongUse(f"'{library}' is none of: {', '.join(sorted(_LIBRARIES))}")
    if protocol not in (CLASSIC, *_KIPS):
        raise WrongUse(
            f"'{protocol}' is not a protocol of groups: name classic, consumer, share or streams"
        )
    if protocol in _KIPS and library != _SPEAKERS[protocol]:
        raise WrongUse(
            f"{library} does not speak the {protocol} protocol ({_KIPS[protocol]}); "
            f"{_SPEAKERS[protocol]} does"
        )
    config = build(bootstrap_servers, group_id, more)
    if protocol == STREAMS:
        config["group.protocol"] = STREAMS
    elif protocol in _KIPS:
        for name in _CLASSIC_ONLY:
            config.pop(name, None)
    if protocol == CONSUMER:
        config["group.protocol"] = CONSUMER
    elif protocol == SHARE:
        # A setting of the group [settings/groups]; a ShareConsumer refuses it.
        config.pop("auto.offset.reset", None)
    return config


def _python_names(
    bootstrap_servers: str, group_id: str | None, more: Mapping[str, Any]
) -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap_servers": bootstrap_servers}
    if group_id is not None:
        config |= {
            "group_id": group_id,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": _SESSION_TIMEOUT_MS,
            "heartbeat_interval_ms": _HEARTBEAT_INTERVAL_MS,
            "metadata_max_age_ms": _REFRESH_MS,
        }
    return config | dict(more)


def _confluent(
    bootstrap_servers: str, group_id: str | None, more: Mapping[str, Any]
) -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap.servers": bootstrap_servers}
    if group_id is not None:
        config |= {
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": _SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": _HEARTBEAT_INTERVAL_MS,
            "topic.metadata.refresh.interval.ms": _REFRESH_MS,
        }
    return config | {name.replace("_", "."): value for name, value in more.items()}


def _streams(
    bootstrap_servers: str, group_id: str | None, more: Mapping[str, Any]
) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers,
        "commit.interval.ms": _COMMIT_INTERVAL_MS,
        "metadata.max.age.ms": _REFRESH_MS,
    }
    if group_id is not None:
        config["application.id"] = group_id
    return config | {name.replace("_", "."): value for name, value in more.items()}


_LIBRARIES = {
    "aiokafka": _python_names,
    CONFLUENT: _confluent,
    KAFKA_STREAMS: _streams,
    "kafka-python": _python_names,
}
