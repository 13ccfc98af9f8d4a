"""Heartbeats with the same bytes are decoded once, and nothing else is kept."""

from typing import Any

import pytest

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatTopicPartitions,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.server.network import repeated_requests
from coterie.server.network.routes import Routes

VERSION = 1


def heartbeat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    values = {"group_id": "g", "member_id": "m", "member_epoch": 3, **fields}
    return ConsumerGroupHeartbeatRequest(**values)


@pytest.fixture
def decode() -> Any:
    """Return the decoder of the broker, which has seen nothing yet, of whole bodies."""
    route = Routes().load(ApiKey.CONSUMER_GROUP_HEARTBEAT << 16 | VERSION)
    return lambda body, before=b"", after=b"": route.decoder(
        before + body + after, len(before), len(before) + len(body)
    )


def test_same_bytes_are_the_same_request_wherever_they_are(decode: Any) -> None:
    body = heartbeat(instance_id="i").encode(VERSION)
    first = decode(body, b"header", b"next request")
    assert first == heartbeat(instance_id="i")
    assert decode(body) is first
    assert decode(heartbeat(member_epoch=4, instance_id="i").encode(VERSION)).member_epoch == 4
    assert decode(body) is first


@pytest.mark.parametrize(
    "told",
    [
        {"member_epoch": 0},
        {"member_epoch": -1},
        {"topic_partitions": []},
        {"topic_partitions": [HeartbeatTopicPartitions(topic_id=b"t" * 16, partitions=[1])]},
        {"subscribed_topic_names": ["foo"]},
        {"subscribed_topic_regex": "f.*"},
        {"member_id": "m" * 600},
    ],
    ids=str,
)
def test_request_that_may_tell_something_is_decoded_each_time(
    decode: Any, told: dict[str, Any]
) -> None:
    body = heartbeat(**told).encode(VERSION)
    first = decode(body)
    assert first == decode(body) == heartbeat(**told)
    assert decode(body) is not first


def test_what_is_kept_is_limited(decode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_requests, "_KEPT", 3)
    bodies = [heartbeat(member_epoch=epoch).encode(VERSION) for epoch in range(1, 5)]
    first = [decode(body) for body in bodies]
    # The fourth was more than are kept, and is alone now.
    assert decode(bodies[3]) is first[3]
    assert decode(bodies[0]) is not first[0]


def test_other_requests_are_decoded_each_time() -> None:
    body = HeartbeatRequest(group_id="g", generation_id=1, member_id="m").encode(4)
    decoder = Routes().load(ApiKey.HEARTBEAT << 16 | 4).decoder
    assert decoder(body, 0, len(body)) is not decoder(body, 0, len(body))
