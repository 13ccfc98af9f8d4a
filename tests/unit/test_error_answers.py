"""Responses with an error, as faults of tests send them: they name what the request names."""

from typing import Any

import pytest

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.testing.error_answers import error_answer

_TOPIC_ID = bytes(range(16))
_ERROR = ErrorCode.REQUEST_TIMED_OUT


def _answer(api: ApiKey, request: Any, version: int) -> Any:
    broker: Any = None
    return error_answer(api, request, _ERROR, version, broker, "PLAINTEXT")


@pytest.mark.parametrize(
    ("version", "request_", "name", "topic_id"),
    [
        (5, DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1), "orders", bytes(16)),
        (
            6,
            DeleteTopicsRequest(
                topics=[DeleteTopicsRequestTopic(topic_id=_TOPIC_ID)], timeout_ms=1
            ),
            None,
            _TOPIC_ID,
        ),
    ],
)
def test_a_topic_is_named_as_in_the_request(
    version: int, request_: DeleteTopicsRequest, name: str | None, topic_id: bytes
) -> None:
    (topic,) = _answer(ApiKey.DELETE_TOPICS, request_, version).responses
    assert (topic.name, topic.topic_id, topic.error_code) == (name, topic_id, _ERROR)


def test_partitions_of_topics_have_the_error_and_nothing_of_the_request_but_their_number() -> None:
    partition = ListOffsetsRequestPartition(partition_index=3, timestamp=17)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequestTopic(name="orders", partitions=[partition])]
    )
    (topic,) = _answer(ApiKey.LIST_OFFSETS, request, 5).topics
    (answered,) = topic.partitions
    assert (topic.name, answered.partition_index, answered.error_code) == ("orders", 3, _ERROR)
    assert (answered.timestamp, answered.offset) == (-1, -1)
