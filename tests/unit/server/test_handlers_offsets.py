"""Topics of OffsetCommit, OffsetFetch and OffsetDelete: by name, by id, and missing ones.

The answers are those of Kafka 4.3.1.

Rules: [offsets/commit-errors], [offsets/fetch].
"""

from typing import Any

import pytest

from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.unit.server.manual import COMMIT, Client, make_broker, wait_for_disk


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    client.broker.controller.create("t", 2, {})
    return client


def topic_id(client: Client) -> bytes:
    return client.broker.topics.by_name["t"].topic_id


@pytest.mark.parametrize("version", range(1, 11))
def test_fetch_before_the_offsets_topic_exists(version: int) -> None:
    """[offsets/fetch-before-the-topic]"""
    client = Client(make_broker(is_new=True))
    client.broker.controller.create("t", 2, {})
    name: Any = {"topic_id": topic_id(client)} if version >= 10 else {"name": "t"}
    topics = [OffsetFetchRequestTopic(partition_indexes=[0, 1], **name)]
    groups = [OffsetFetchRequestGroup(group_id=each, topics=topics) for each in ("g", "h")]
    request = OffsetFetchRequest(group_id="g", topics=topics)
    if version >= 8:
        request = OffsetFetchRequest(groups=groups)
    answer = client.call(request, version)
    if version >= 8:
        found = [(each.group_id, each.error_code, each.topics) for each in answer.groups]
        assert found == [("g", 16, []), ("h", 16, [])]
    elif version >= 2:
        assert (answer.error_code, answer.topics) == (16, [])
    else:
        assert codes(answer) == [("t", [(0, 16), (1, 16)])]
        assert {each.committed_offset for each in answer.topics[0].partitions} == {-1}
    client.call(FindCoordinatorRequest(key="g"), 3)
    again = client.call(request, version)
    errors = [each.error_code for each in again.groups] if version >= 8 else [again.error_code]
    assert not any(errors)


def commit_request(*topics: tuple[str | bytes, list[int]], **fields: Any) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        **{"group_id": "g", "member_id": "", **fields},
        topics=[
            OffsetCommitRequestTopic(
                **({"name": topic} if isinstance(topic, str) else {"topic_id": topic}),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=5, committed_metadata=""
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in topics
        ],
    )


def codes(answer: Any, *, by_id: bool = False) -> list[tuple[Any, list[tuple[int, int]]]]:
    return [
        (
            topic.topic_id if by_id else topic.name,
            [(each.partition_index, each.error_code) for each in topic.partitions],
        )
        for topic in answer.topics
    ]


class TestCommit:
    def test_missing_partitions_come_first(self, client: Client) -> None:
        request = commit_request(("t", [0, 7, 1]), ("nope", [0]))
        assert codes(client.call(request, 8)) == [
            ("t", [(7, 3), (0, 0), (1, 0)]),
            ("nope", [(0, 3)]),
        ]
        assert codes(client.call(commit_request(("t", [-1])), 8)) == [("t", [(-1, 3)])]

    def test_missing_partitions_are_merged_into_delayed_responses(self) -> None:
        client = Client(make_broker(flush=COMMIT))
        client.broker.controller.create("t", 1, {})
        client.send(commit_request(("t", [0, 7])), 8)
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        assert codes(answer) == [("t", [(7, 3), (0, 0)])]
        client.broker.flusher.stop()
