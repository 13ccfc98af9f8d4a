"""GetTelemetrySubscriptions and PushTelemetry: the metrics of clients are counted (KIP-714).

[telemetry/counted]
"""

import zlib

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from coterie.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from coterie.protocol.wire import ZERO_UUID
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.services import Services

# Zstandard, LZ4, gzip, Snappy: in the order in which Kafka prefers them. 0 is no compression.
_COMPRESSIONS = [4, 3, 1, 2]
_PUSH_INTERVAL_MS = 300_000
# The subscription that asks for all metrics.
_ALL_METRICS = [""]


def _subscription_id(client_instance_id: bytes) -> int:
    """Return the id of a client's subscription, which is always the same."""
    return zlib.crc32(client_instance_id) - 2**31


def _get(
    broker: Services, request: GetTelemetrySubscriptionsRequest, _connection: Exchange
) -> GetTelemetrySubscriptionsResponse:
    instance = request.client_instance_id
    if instance == ZERO_UUID:
        instance = broker.environment.new_topic_id()
        broker.telemetry.instances += 1
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=instance,
        subscription_id=_subscription_id(instance),
        accepted_compression_types=_COMPRESSIONS,
        push_interval_ms=_PUSH_INTERVAL_MS,
        telemetry_max_bytes=broker.config.get_int("telemetry.max.bytes"),
        delta_temporality=True,
        requested_metrics=_ALL_METRICS if broker.telemetry.is_announced else [],
    )


def _push(
    broker: Services, request: PushTelemetryRequest, _connection: Exchange
) -> PushTelemetryResponse:
    error = _refusal(broker, request)
    if error is ErrorCode.NONE:
        broker.telemetry.pushes += 1
        broker.telemetry.pushed_bytes += len(request.metrics)
    return PushTelemetryResponse(error_code=error)


def _refusal(broker: Services, request: PushTelemetryRequest) -> ErrorCode:
    if request.client_instance_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST
    if request.subscription_id != _subscription_id(request.client_instance_id):
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type and request.compression_type not in _COMPRESSIONS:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(request.metrics) > broker.config.get_int("telemetry.max.bytes"):
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _get,
    ApiKey.PUSH_TELEMETRY: _push,
}
