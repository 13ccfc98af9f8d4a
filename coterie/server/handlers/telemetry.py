"""GetTelemetrySubscriptions and PushTelemetry: the metrics of clients are counted (KIP-714).

[telemetry/counted]
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from coterie.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from coterie.protocol.refusals import refusal
from coterie.protocol.wire import ZERO_UUID
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.services import Services
from coterie.server.telemetry import COMPRESSIONS


def _get(
    broker: Services, request: GetTelemetrySubscriptionsRequest, connection: Exchange
) -> GetTelemetrySubscriptionsResponse:
    telemetry, instance_id = broker.telemetry, request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = broker.environment.new_topic_id()
        telemetry.instances += 1
    client = telemetry.client(instance_id, connection.client)
    error = client.get(connection.now_ms)
    if error:
        nothing = dict.fromkeys(("subscription_id", "push_interval_ms", "telemetry_max_bytes"), 0)
        refused: GetTelemetrySubscriptionsResponse = refusal(
            request, error, connection.version, **nothing
        )
        return refused
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=instance_id,
        subscription_id=client.subscription_id,
        accepted_compression_types=list(COMPRESSIONS),
        push_interval_ms=client.interval_ms,
        telemetry_max_bytes=broker.config.get_int("telemetry.max.bytes"),
        delta_temporality=True,
        requested_metrics=client.metrics,
    )


def _push(
    broker: Services, request: PushTelemetryRequest, connection: Exchange
) -> PushTelemetryResponse:
    error = broker.telemetry.push(request, connection.client, connection.now_ms)
    return PushTelemetryResponse(error_code=error)


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _get,
    ApiKey.PUSH_TELEMETRY: _push,
}
