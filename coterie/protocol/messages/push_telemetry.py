"""PushTelemetry (API key 72): metrics of a client (KIP-714).

v0   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Bytes,
    Int8,
    Int16,
    Int32,
    Message,
    Uuid,
    message,
)


@message(api_key=ApiKey.PUSH_TELEMETRY, flexible=0)
class PushTelemetryRequest(Message):
    """Metrics of OpenTelemetry, perhaps compressed."""

    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Boolean
    compression_type: Int8
    metrics: Bytes


@message(api_key=ApiKey.PUSH_TELEMETRY, flexible=0)
class PushTelemetryResponse(Message):
    """Whether they were accepted."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
