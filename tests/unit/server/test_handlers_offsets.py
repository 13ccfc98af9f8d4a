"""Topics of OffsetCommit, OffsetFetch and OffsetDelete: by name, by id, and missing ones.

The answers are those of Kafka 4.3.1.
"""

from typing import Any

import pytest

from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.unit.server.manual import COMMIT, Client, make_broker, wait_for_disk

UNKNOWN_ID = b"\1" * 16
ZERO = bytes(16)


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

    def test_by_id(self, client: Client) -> None:
        known = topic_id(client)
        request = commit_request((known, [0, 9]), (UNKNOWN_ID, [0]), (ZERO, [0]))
        assert codes(client.call(request, 10), by_id=True) == [
            (known, [(9, 3), (0, 0)]),
            (UNKNOWN_ID, [(0, 100)]),
            (ZERO, [(0, 100)]),
        ]

    def test_commit_of_missing_partitions_does_not_create_a_group(self, client: Client) -> None:
        request = commit_request(("nope", [0]), generation_id_or_member_epoch=5)
        assert codes(client.call(request, 8)) == [("nope", [(0, 3)])]
        assert client.broker.coordinator.group("g") is None

    def test_empty_commit(self, client: Client) -> None:
        assert client.call(commit_request(), 8).topics == []

    def test_topic_named_twice(self, client: Client) -> None:
        request = commit_request(("t", [0, 0]), ("t", [0]))
        assert codes(client.call(request, 8)) == [("t", [(0, 0), (0, 0)]), ("t", [(0, 0)])]

    def test_missing_partitions_are_merged_into_delayed_responses(self) -> None:
        client = Client(make_broker(flush=COMMIT))
        client.broker.controller.create("t", 1, {})
        client.send(commit_request(("t", [0, 7])), 8)
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        assert codes(answer) == [("t", [(7, 3), (0, 0)])]
        client.broker.flusher.stop()


class TestFetch:
    def fetch(self, client: Client, version: int, topics: list[Any] | None) -> Any:
        asked = None
        if topics is not None:
            asked = [
                OffsetFetchRequestTopic(
                    **({"name": topic} if isinstance(topic, str) else {"topic_id": topic}),
                    partition_indexes=indexes,
                )
                for topic, indexes in topics
            ]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=asked)])
        (group,) = client.call(request, version).groups
        return [
            (
                topic.name or topic.topic_id,
                [(e.partition_index, e.committed_offset, e.error_code) for e in topic.partitions],
            )
            for topic in group.topics
        ]

    def test_by_name(self, client: Client) -> None:
        client.call(commit_request(("t", [0])), 8)
        found = self.fetch(client, 8, [("t", [0, 7]), ("nope", [0])])
        assert found == [("t", [(0, 5, 0), (7, -1, 0)]), ("nope", [(0, -1, 0)])]
        assert self.fetch(client, 8, None) == [("t", [(0, 5, 0)])]

    def test_by_id(self, client: Client) -> None:
        known = topic_id(client)
        client.call(commit_request(("t", [0])), 8)
        found = self.fetch(client, 10, [(known, [0, 7]), (UNKNOWN_ID, [0]), (ZERO, [3])])
        assert found == [
            (known, [(0, 5, 0), (7, -1, 0)]),
            (UNKNOWN_ID, [(0, -1, 100)]),
            (ZERO, [(3, -1, 100)]),
        ]
        assert self.fetch(client, 10, None) == [(known, [(0, 5, 0)])]

    def test_fetch_without_groups_or_offsets(self, client: Client) -> None:
        assert client.call(OffsetFetchRequest(), 8).groups == []
        assert self.fetch(client, 10, None) == []


class TestDelete:
    def delete(self, client: Client, *topics: tuple[str, list[int]], group: str = "g") -> Any:
        asked = [
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for name, indexes in topics
        ]
        return client.call(OffsetDeleteRequest(group_id=group, topics=asked), 0)

    def test_missing_partitions_come_first(self, client: Client) -> None:
        client.call(commit_request(("t", [0, 1])), 8)
        answer = self.delete(client, ("nope", [0]), ("t", [0, 7]))
        assert answer.error_code == 0
        assert codes(answer) == [("nope", [(0, 3)]), ("t", [(7, 3), (0, 0)])]

    def test_error_about_the_group_is_the_whole_answer(self, client: Client) -> None:
        for topics in ([], [("nope", [0])], [("t", [0])]):
            answer = self.delete(client, *topics, group="unknown")
            assert (answer.error_code, answer.topics) == (69, [])
