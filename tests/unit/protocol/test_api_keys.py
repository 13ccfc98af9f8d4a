"""API keys, error codes and versions agree with the declarations, kafka-python and kio.

Rules: [framing/served-versions].
"""

from typing import Any

import kafka.errors
import pytest
from kafka.protocol.api_key import ApiKey as PeerApiKey
from kio.schema.errors import ErrorCode as KioErrorCode

from coterie.protocol.api_keys import (
    ADVERTISED_MINIMUM,
    OLDEST_VERSIONS,
    SERVED_VERSIONS,
    ApiKey,
    declared_versions,
)
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.wire import Message
from tests.codecs.catalogue import MESSAGES, REQUESTS, RESPONSES, pair_id


def test_every_api_has_versions_a_request_and_a_response() -> None:
    assert SERVED_VERSIONS.keys() == set(ApiKey)
    assert {cls.api_key for cls in REQUESTS} == set(ApiKey)
    assert {cls.api_key for cls in RESPONSES} == set(ApiKey)
    assert len(REQUESTS) == len(RESPONSES) == len(ApiKey)


@pytest.mark.parametrize("cls", [*REQUESTS, *RESPONSES], ids=pair_id)
def test_messages_have_the_declared_versions(cls: type[Message]) -> None:
    assert cls.api_key is not None
    key = ApiKey(cls.api_key)
    assert cls.versions == declared_versions(key)
    assert cls in (request_class(key), response_class(key))
    assert cls.__module__ == f"coterie.protocol.messages.{key.name.lower()}"


def test_requests_and_responses_become_flexible_together() -> None:
    flexible = {cls.api_key: cls.flexible for cls in REQUESTS}
    assert flexible == {cls.api_key: cls.flexible for cls in RESPONSES}


def test_messages_without_an_api_are_log_records_or_payloads_of_members() -> None:
    modules = {
        cls.__module__.removeprefix("coterie.protocol.messages.")
        for cls in MESSAGES
        if cls.api_key is None
    }
    assert modules == {
        "connect_protocol",
        "consumer_group_facts",
        "consumer_group_records",
        "consumer_protocol",
        "journal_records",
        "log_records",
        "offset_facts",
        "partition_facts",
        "security_records",
        "share_facts",
        "share_group_records",
        "share_state_records",
        "streams_group_records",
        "transaction_records",
    }


def test_older_versions_than_the_served_ones_are_declared_from_0_on() -> None:
    # The version 0 of share groups was a preview in Kafka 4.0 only.
    previews = {ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE}
    previews |= {ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}
    assert (
        set(OLDEST_VERSIONS)
        == {
            key
            for key in ApiKey
            if declared_versions(key)[0] or SERVED_VERSIONS.get(key, (0, 0))[0]
        }
        - previews
    )
    assert set(OLDEST_VERSIONS.values()) == {0}


def test_only_produce_is_announced_from_a_lower_version() -> None:
    assert ADVERTISED_MINIMUM == {ApiKey.PRODUCE: 0}


def test_api_keys_equal_those_of_kafka_python() -> None:
    theirs = {member.value: member.name for member in PeerApiKey}
    for key in ApiKey:
        assert theirs[key.value].replace("_", "").lower() == key.name.replace("_", "").lower()


def test_error_codes_equal_those_of_kio() -> None:
    theirs = {error.value: error.name.upper() for error in KioErrorCode}
    assert {error.value: error.name for error in ErrorCode} == theirs


# Names of kafka-python that Kafka has changed since, or never had.
_KAFKA_PYTHON_NAMES = {
    -1: "UNKNOWN",
    0: "NO_ERROR",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}


def test_error_codes_equal_those_of_kafka_python() -> None:
    classes: list[Any] = [
        value
        for value in vars(kafka.errors).values()
        if isinstance(value, type) and issubclass(value, kafka.errors.BrokerResponseError)
    ]
    theirs = {error.errno: error.message for error in classes if error.errno is not None}
    ours = {error.value: error.name for error in ErrorCode if error.value in theirs}
    assert len(ours) == len(theirs) > 120
    assert {**ours, **_KAFKA_PYTHON_NAMES} == theirs
