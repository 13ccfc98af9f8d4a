"""GetTelemetrySubscriptions (API key 71): which metrics a client shall push (KIP-714).

v0   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    message,
)


@message(api_key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, flexible=0)
class GetTelemetrySubscriptionsRequest(Message):
    """The id of the client; zeros for a new one."""

    client_instance_id: Uuid


@message(api_key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, flexible=0)
class GetTelemetrySubscriptionsResponse(Message):
    """The metrics to push, and how often."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Boolean
    requested_metrics: list[String]
