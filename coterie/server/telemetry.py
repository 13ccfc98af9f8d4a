"""Subscriptions of client metrics, and what clients have pushed (KIP-714).

Invariant: the clients that are kept are those that were heard of last [telemetry/counted].
"""

import re
import zlib

from coterie.coordinator.kernel.request import ClientContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.fields import uuid_text
from coterie.protocol.messages.push_telemetry import PushTelemetryRequest
from coterie.protocol.wire import ZERO_UUID
from coterie.server.config.client_metrics import (
    DEFAULT_INTERVAL_MS,
    Subscription,
    TooManyStates,
    subscriptions,
)
from coterie.server.config.config import Config

# Zstandard, LZ4, gzip, Snappy: in the order in which Kafka prefers them. 0 is no compression.
COMPRESSIONS = (4, 3, 1, 2)
# As many clients as Kafka keeps, some 300 bytes each.
MAX_CLIENTS = 16_384
# A longer property of a client matches no pattern, so that the time for a comparison is limited.
LONGEST_PROPERTY = 255

# Names of classes that receive the metrics of clients, as far as a name shows that.
_RECEIVER = "(?i)telemetry|client_?metrics"
_ALL = "*"
# Kafka keeps this id, like zero, for a purpose of its own.
_RESERVED = (ZERO_UUID, bytes(15) + b"\1")
_NEVER_MS = -(2**62)


class TelemetryClient:
    """A client, and what it is asked for.

    Attributes:
        subscription_id: changes with what it is asked for.
        interval_ms, metrics: how often it pushes what.
        version: of the subscriptions that this was decided by.
        got_ms, pushed_ms: when it last got its subscription, and last pushed.
        is_terminating: it has pushed for the last time.
        last_error: of its last push.
    """

    __slots__ = (
        "got_ms",
        "interval_ms",
        "is_terminating",
        "last_error",
        "metrics",
        "pushed_ms",
        "subscription_id",
        "version",
    )

    def __init__(
        self, instance_id: bytes, interval_ms: int, metrics: list[str], version: int
    ) -> None:
        asked = f"{metrics} {interval_ms}".encode() + instance_id
        self.subscription_id = zlib.crc32(asked) - 2**31
        self.interval_ms = interval_ms
        self.metrics = metrics
        self.version = version
        self.got_ms = self.pushed_ms = _NEVER_MS
        self.is_terminating = False
        self.last_error = ErrorCode.NONE

    def get(self, now_ms: int) -> ErrorCode:
        """Return whether the client may get its subscription now [telemetry/pushes]."""
        if now_ms - max(self.got_ms, self.pushed_ms) >= self.interval_ms:
            self.got_ms = now_ms
        elif self.last_error not in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self.last_error = ErrorCode.NONE
        return ErrorCode.NONE

    def may_push(self, now_ms: int) -> bool:
        """Return whether the client may push now, and note that it does [telemetry/pushes]."""
        if self.got_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class Telemetry:
    """What clients are asked for, and have pushed since the start.

    Attributes:
        instances: clients that were given an id.
        pushes, pushed_bytes: accepted pushes, and the bytes of their metrics.
        most_clients: how many clients are kept.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self.instances = 0
        self.pushes = 0
        self.pushed_bytes = 0
        self.most_clients = MAX_CLIENTS
        self._clients: dict[bytes, TelemetryClient] = {}
        # The settings that the subscriptions are made of.
        self._settings = config.client_metrics
        self._subscriptions: list[Subscription] = []
        self._version = 0
        self._read_settings()

    @property
    def is_announced(self) -> bool:
        """Whether clients are invited to push metrics [telemetry/counted]."""
        config = self._config
        return config.get_bool("telemetry.announce.enable") or any(
            re.search(_RECEIVER, name) for name in config.get_list("metric.reporters")
        )

    def client(self, instance_id: bytes, context: ClientContext) -> TelemetryClient:
        """Return a client, with what it is asked for now [telemetry/subscriptions]."""
        if self._settings != self._config.client_metrics:
            self._settings = self._config.client_metrics
            self._read_settings()
        client = self._clients.pop(instance_id, None)
        if client is None or client.version != self._version:
            client = self._subscribed(instance_id, context)
        self._clients[instance_id] = client
        if len(self._clients) > self.most_clients:
            del self._clients[next(iter(self._clients))]
        return client

    def push(self, request: PushTelemetryRequest, context: ClientContext, now_ms: int) -> ErrorCode:
        """Check a push, and count it unless it is refused [telemetry/pushes]."""
        if request.client_instance_id in _RESERVED:
            return ErrorCode.INVALID_REQUEST
        client = self.client(request.client_instance_id, context)
        error = client.last_error = self._refusal(client, request, now_ms)
        if not error:
            client.is_terminating = request.terminating
            self.pushes += 1
            self.pushed_bytes += len(request.metrics)
        return error

    def _refusal(
        self, client: TelemetryClient, request: PushTelemetryRequest, now_ms: int
    ) -> ErrorCode:
        if client.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not client.may_push(now_ms) and not request.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != client.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if request.compression_type and request.compression_type not in COMPRESSIONS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > self._config.get_int("telemetry.max.bytes"):
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _read_settings(self) -> None:
        self._version += 1
        try:
            self._subscriptions = subscriptions(self._settings)
        except TooManyStates:
            # Another release has stored them.
            self._subscriptions = []

    def _subscribed(self, instance_id: bytes, context: ClientContext) -> TelemetryClient:
        properties = {
            "client_id": context.client_id,
            "client_instance_id": uuid_text(instance_id),
            "client_software_name": context.software_name or "unknown",
            "client_software_version": context.software_version or "unknown",
            "client_source_address": context.client_host.removeprefix("/"),
            "client_source_port": str(context.client_port),
        }
        # Kafka never asks for longer intervals than this.
        interval_ms = DEFAULT_INTERVAL_MS
        metrics: set[str] = set()
        for each in self._subscriptions:
            if all(
                len(properties[name]) <= LONGEST_PROPERTY and pattern.matches(properties[name])
                for name, pattern in each.criteria
            ):
                interval_ms = min(interval_ms, each.interval_ms)
                metrics.update(each.metrics)
        wanted = [_ALL] if _ALL in metrics else sorted(metrics)
        return TelemetryClient(instance_id, interval_ms, wanted, self._version)
