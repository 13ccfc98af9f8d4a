"""What a recording leaves out of frames: secrets, and payloads of records unless they are wanted.

Secrets are the tokens of SASL, the credentials of SCRAM, delegation tokens and the values of secret
settings [recording/secrets]. What this program cannot read well enough to be sure is left out too:
APIs that are newer than it, and settings that it does not know.
"""

from struct import Struct
from typing import Any, NamedTuple

from coterie.conversation.batches import batch_headers
from coterie.protocol.api_keys import ApiKey, is_declared
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import DECODE_ERRORS
from coterie.protocol.frames import decode_request_header, decode_response
from coterie.recording.format import Flag
from coterie.server.config.kafka_keys import find_key
from coterie.server.config.keys import GROUP_RESOURCE, ConfigKey
from coterie.server.config.resource_keys import GROUP
from coterie.server.config.topic_keys import TOPIC

SASL_HANDSHAKE = 17
_ENVELOPE = 58
# SaslAuthenticate, the four APIs of delegation tokens, AlterUserScramCredentials; an Envelope has a
# request of any of them inside.
_SECRET_APIS = frozenset({36, 38, 39, 40, 41, 51, _ENVELOPE})
# The newest API of Kafka 4.3.
NEWEST_API = 92
# No API has more versions, and the bytes of a SASL token look like versions above.
_MOST_VERSIONS = 30
_CONFIG_APIS = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})
# Their responses have records.
_FETCHING_APIS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
_TOPIC, _BROKER = 2, 4
HIDDEN = "[hidden]"

_HEADER = Struct(">hhih")
# API key, version and correlation id.
_START_BYTES = 8
_CORRELATION_ID_BYTES = 4


class RequestStart(NamedTuple):
    """The beginning of a request; the API may be unknown."""

    api_key: int
    version: int
    correlation_id: int


class Redacted(NamedTuple):
    """A frame as it is recorded, and how it differs from what was sent."""

    frame: bytes
    flags: Flag


def request_start(frame: bytes) -> RequestStart | None:
    """Return how a request begins; None if this is no request, such as a token of SASL."""
    if len(frame) < _HEADER.size:
        return None
    api_key, version, correlation_id, length = _HEADER.unpack_from(frame)
    is_request = api_key >= 0 and 0 <= version <= _MOST_VERSIONS and length >= -1
    if not is_request or _HEADER.size + max(length, 0) > len(frame):
        return None
    return RequestStart(api_key, version, correlation_id)


def redacted_request(frame: bytes, start: RequestStart, *, with_payloads: bool) -> Redacted:
    """Return a request without what is not recorded."""
    api_key, version, _ = start
    if api_key > NEWEST_API:
        return Redacted(frame[:_START_BYTES], Flag.REDACTED)
    if api_key in _SECRET_APIS:
        return _without_body(frame)
    if api_key not in _CONFIG_APIS and (with_payloads or api_key != ApiKey.PRODUCE):
        return Redacted(frame, Flag(0))
    api = ApiKey(api_key)
    if not is_declared(api, version):
        return _without_body(frame)
    cls = request_class(api)
    try:
        flexible = cls.has_flexible_header(version)
        _, position = decode_request_header(frame, 0, len(frame), flexible=flexible)
        message = cls.decode(frame, version, position)
    except DECODE_ERRORS:
        return _without_body(frame)
    head = frame[:position]
    if api is ApiKey.PRODUCE:
        _drop_produced(message)
        return Redacted(head + message.encode(version), Flag.WITHOUT_PAYLOADS)
    if not _hide_settings(message):
        return Redacted(frame, Flag(0))
    return Redacted(head + message.encode(version), Flag.HIDDEN)


def redacted_response(frame: bytes, request: RequestStart, *, with_payloads: bool) -> Redacted:
    """Return the response to a request without what is not recorded."""
    api_key, version, _ = request
    if api_key in _SECRET_APIS or api_key > NEWEST_API:
        return Redacted(frame[:_CORRELATION_ID_BYTES], Flag.REDACTED)
    if with_payloads or api_key not in _FETCHING_APIS:
        return Redacted(frame, Flag(0))
    api = ApiKey(api_key)
    if not is_declared(api, version):
        return Redacted(frame[:_CORRELATION_ID_BYTES], Flag.REDACTED)
    cls = response_class(api)
    try:
        correlation_id, message = decode_response(cls, frame, version)
    except DECODE_ERRORS:
        return Redacted(frame[:_CORRELATION_ID_BYTES], Flag.REDACTED)
    _drop_fetched(message)
    # The framer adds the length, which entries have themselves.
    return Redacted(cls.framer(version)(message, correlation_id)[4:], Flag.WITHOUT_PAYLOADS)


def is_secret_setting(resource_type: int, name: str) -> bool:
    """Return whether the value of a setting is left out: a secret, or a name that is not known."""
    if resource_type == _TOPIC:
        return name not in TOPIC
    if resource_type == GROUP_RESOURCE:
        return name not in GROUP
    if resource_type != _BROKER:
        return True
    key = find_key(name)
    return not isinstance(key, ConfigKey) or key.is_sensitive


def _without_body(frame: bytes) -> Redacted:
    """Return a request up to its client id."""
    *_, length = _HEADER.unpack_from(frame)
    return Redacted(frame[: _HEADER.size + max(length, 0)], Flag.REDACTED)


def _drop_produced(message: Any) -> None:
    for topic in message.topic_data:
        for partition in topic.partition_data:
            if partition.records is not None:
                partition.records = batch_headers(partition.records)


def _drop_fetched(message: Any) -> None:
    for topic in message.responses:
        for partition in topic.partitions:
            if partition.records is not None:
                partition.records = batch_headers(partition.records)


def _hide_settings(message: Any) -> bool:
    """Replace the values of secret settings; return whether there are any."""
    found = False
    for resource in message.resources:
        for config in resource.configs:
            if config.value is not None and is_secret_setting(resource.resource_type, config.name):
                config.value = HIDDEN
                found = True
    return found
