"""Subscriptions and pushes of client metrics; the answers are those of Kafka 4.3.1."""

from typing import Any

import pytest

from coterie.protocol.api_keys import TELEMETRY_APIS
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.messages.push_telemetry import PushTelemetryRequest
from coterie.protocol.wire import ZERO_UUID
from coterie.server import telemetry
from coterie.server.config.keys import CLIENT_METRICS_RESOURCE
from tests.unit.server.changed_now import set_broker_settings
from tests.unit.server.manual import Client, loop_of, make_broker

SOME_ID = bytes(range(16))
DEFAULT_MS = 300_000


@pytest.fixture
def client() -> Client:
    return Client(make_broker())


def announced(client: Client) -> set[int]:
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    return {each.api_key for each in client.call(request, 4).api_keys}


def get(client: Client, instance: bytes = ZERO_UUID) -> Any:
    return client.call(GetTelemetrySubscriptionsRequest(client_instance_id=instance), 0)


def push(client: Client, instance: bytes, subscription: int, **other: Any) -> int:
    request = PushTelemetryRequest(
        client_instance_id=instance,
        subscription_id=subscription,
        terminating=other.get("terminating", False),
        compression_type=other.get("compression", 0),
        metrics=other.get("metrics", b"metrics"),
    )
    error: int = client.call(request, 0).error_code
    return error


def subscribe(client: Client, subscription: str, **settings: str) -> Any:
    """Set settings of a subscription; `interval_ms` is `interval.ms`."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestResource(
                resource_type=CLIENT_METRICS_RESOURCE,
                resource_name=subscription,
                configs=[
                    IncrementalAlterConfigsRequestConfig(
                        name=name.replace("_", "."), config_operation=0, value=value
                    )
                    for name, value in settings.items()
                ],
            )
        ],
        validate_only=False,
    )
    (answer,) = client.call(request, 1).responses
    return answer


def test_telemetry_is_not_announced_by_default(client: Client) -> None:
    """[telemetry/counted]"""
    assert announced(client).isdisjoint(TELEMETRY_APIS)
    answer = get(client)
    assert answer.client_instance_id != ZERO_UUID
    assert (answer.accepted_compression_types, answer.push_interval_ms) == (
        [4, 3, 1, 2],
        DEFAULT_MS,
    )
    assert answer.requested_metrics == []


def test_setting_announces_telemetry() -> None:
    """[telemetry/counted]"""
    client = Client(make_broker({"telemetry.announce.enable": "true"}))
    assert announced(client) > TELEMETRY_APIS
    assert get(client).requested_metrics == []


@pytest.mark.parametrize(
    ("reporters", "is_announced"),
    [
        ("org.apache.kafka.common.metrics.JmxReporter", False),
        ("com.example.PrometheusReporter,com.example.ClientsReporter", False),
        ("com.example.Prometheus,io.confluent.telemetry.reporter.TelemetryReporter", True),
        ("kafka.server.TestClientMetricsReceiver", True),
    ],
)
def test_reporter_that_receives_metrics_announces_telemetry(
    reporters: str, is_announced: bool
) -> None:
    """[telemetry/counted]"""
    for settings in ({"metric.reporters": reporters}, {}):
        client = Client(make_broker(settings))
        if not settings:
            set_broker_settings(client.broker, {}, {"metric.reporters": reporters})
        assert (announced(client) >= TELEMETRY_APIS) == is_announced


class TestSubscriptions:
    """[telemetry/subscriptions]"""

    def test_all_that_match_are_united_with_the_shortest_interval(self, client: Client) -> None:
        announced(client)
        subscribe(client, "a", interval_ms="1000", metrics="org.apache.,foo.")
        subscribe(client, "b", interval_ms="500", metrics="x", match="client_id=other")
        subscribe(
            client,
            "c",
            interval_ms="2000",
            metrics="x,y",
            match="client_id=te.t, client_software_name=[a-z]+,client_software_version=1,"
            "client_source_address=127.0.0.1,client_source_port=[0-9]+,client_instance_id=.{22}",
        )
        answer = get(client)
        assert answer.push_interval_ms == 1000
        assert answer.requested_metrics == ["foo.", "org.apache.", "x", "y"]

    def test_star_takes_the_place_of_all_others(self, client: Client) -> None:
        subscribe(client, "a", metrics="foo.")
        subscribe(client, "b", metrics="*")
        assert get(client).requested_metrics == ["*"]

    def test_interval_is_not_longer_than_the_default(self, client: Client) -> None:
        subscribe(client, "a", interval_ms="3600000", metrics="*")
        assert get(client).push_interval_ms == DEFAULT_MS

    def test_change_counts_at_the_next_request_of_a_known_client(self, client: Client) -> None:
        before = get(client, SOME_ID)
        subscribe(client, "a", metrics="foo.")
        after = get(client, SOME_ID)
        assert (after.error_code, after.requested_metrics) == (ErrorCode.NONE, ["foo."])
        assert after.subscription_id != before.subscription_id
        error = push(client, SOME_ID, before.subscription_id)
        assert error == ErrorCode.UNKNOWN_SUBSCRIPTION_ID

    def test_subscriptions_are_there_after_a_restart(self) -> None:
        broker = make_broker()
        subscribe(Client(broker), "a", metrics="foo.")
        again = telemetry.Telemetry(broker.config)
        assert again.client(SOME_ID, Client(broker).connection.client).metrics == ["foo."]

    def test_very_long_property_does_not_match(self, client: Client) -> None:
        subscribe(client, "a", metrics="foo.", match="client_id=a*")
        client.client_id = "a" * telemetry.LONGEST_PROPERTY
        assert get(client).requested_metrics == ["foo."]
        client.client_id = "a" * (telemetry.LONGEST_PROPERTY + 1)
        assert get(client).requested_metrics == []

    def test_patterns_have_a_limit_together(self, client: Client) -> None:
        """A client is compared with all of them."""
        assert subscribe(client, "a", match="client_id=a{900}").error_code == ErrorCode.NONE
        errors = [
            subscribe(client, f"b{number}", match="client_id=a{1000}").error_code
            for number in range(10)
        ]
        assert errors[0] == ErrorCode.NONE
        assert errors[-1] == ErrorCode.POLICY_VIOLATION

    def test_pattern_that_is_not_supported_is_refused(self, client: Client) -> None:
        answer = subscribe(client, "a", match="client_id=(?!a)b")
        assert answer.error_code == ErrorCode.INVALID_CONFIG
        assert answer.error_message == "Illegal client matching pattern: client_id=(?!a)b"

    def test_stored_pattern_of_another_release_matches_nobody(self, client: Client) -> None:
        settings = {"a": {"match": "client_id=(?!a)b", "metrics": "foo."}}
        client.broker.config.set_resources(CLIENT_METRICS_RESOURCE, settings)
        assert get(client).requested_metrics == []


class TestIntervals:
    """[telemetry/pushes]"""

    def test_subscription_can_be_got_once_in_an_interval(self, client: Client) -> None:
        assert get(client, SOME_ID).error_code == ErrorCode.NONE
        refused = get(client, SOME_ID)
        assert refused.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert refused.client_instance_id == ZERO_UUID
        loop_of(client.broker).advance(DEFAULT_MS)
        assert get(client, SOME_ID).error_code == ErrorCode.NONE

    def test_subscription_can_be_got_again_after_an_error_that_it_mends(
        self, client: Client
    ) -> None:
        found = get(client, SOME_ID).subscription_id
        for subscription, compression in ((found + 1, 0), (found, 9)):
            loop_of(client.broker).advance(DEFAULT_MS)
            assert push(client, SOME_ID, subscription, compression=compression) != ErrorCode.NONE
            assert get(client, SOME_ID).error_code == ErrorCode.NONE
            error = get(client, SOME_ID).error_code
            assert error == ErrorCode.THROTTLING_QUOTA_EXCEEDED

    def test_push_comes_at_once_and_then_in_intervals(self, client: Client) -> None:
        subscription = get(client, SOME_ID).subscription_id
        throttled = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert push(client, SOME_ID, subscription) == ErrorCode.NONE
        assert push(client, SOME_ID, subscription) == throttled
        loop_of(client.broker).advance(DEFAULT_MS)
        assert push(client, SOME_ID, subscription) == ErrorCode.NONE

    def test_last_push_may_come_at_any_time_and_is_the_last(self, client: Client) -> None:
        subscription = get(client, SOME_ID).subscription_id
        assert push(client, SOME_ID, subscription) == ErrorCode.NONE
        assert push(client, SOME_ID, subscription, terminating=True) == ErrorCode.NONE
        for _ in range(2):
            error = push(client, SOME_ID, subscription, terminating=True)
            assert error == ErrorCode.INVALID_REQUEST


def test_pushes_are_checked_and_counted() -> None:
    """[telemetry/pushes]"""
    client = Client(make_broker({"telemetry.max.bytes": "10"}))
    found = get(client)
    instance, subscription = found.client_instance_id, found.subscription_id
    for reserved in (ZERO_UUID, bytes(15) + b"\1"):
        assert push(client, reserved, subscription) == ErrorCode.INVALID_REQUEST
    for arguments, error in (
        ({"subscription": subscription + 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": bytes(11)}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({}, ErrorCode.NONE),
    ):
        assert push(client, instance, **{"subscription": subscription, **arguments}) == error
        loop_of(client.broker).advance(DEFAULT_MS)
    counted = client.broker.telemetry
    assert (counted.instances, counted.pushes, counted.pushed_bytes) == (1, 1, 7)


def test_clients_that_are_kept_have_a_limit(client: Client) -> None:
    """[telemetry/counted]"""
    client.broker.telemetry.most_clients = 2
    first, second, third = (bytes([number]) * 16 for number in (2, 3, 4))
    for each in (first, second):
        assert get(client, each).error_code == ErrorCode.NONE
    # Heard of again, so the other one is forgotten.
    assert get(client, first).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert get(client, third).error_code == ErrorCode.NONE
    assert get(client, first).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert get(client, second).error_code == ErrorCode.NONE
