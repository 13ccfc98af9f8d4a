"""Offsets of share groups beside what checks of brokers show: records, failures, late answers."""

from typing import Any

from coterie.coordinator.groups.share.state_request import same_answer
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from coterie.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from coterie.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
)
from tests.unit.coordinator.consumer.harness import topic_id
from tests.unit.coordinator.share.test_share_groups import ShareHarness


class OffsetsHarness(ShareHarness):
    """A coordinator whose share coordinator answers when it is told to."""

    def handle(self, request: Any, context: RequestContext) -> Effects[Any]:
        """See `CoordinatorHarness`."""
        if isinstance(request, AlterShareGroupOffsetsRequest):
            return self.coordinator.alter_share_group_offsets(self.now_ms, request, context)
        if isinstance(request, DeleteShareGroupOffsetsRequest):
            return self.coordinator.delete_share_group_offsets(self.now_ms, request, context)
        return super().handle(request, context)

    def alter(self, **offsets: dict[int, int]) -> Any:
        """Set the offsets of partitions, by topic; return the answer, or None if it waits."""
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=each)
                    for index, each in partitions.items()
                ],
            )
            for name, partitions in offsets.items()
        ]
        request = AlterShareGroupOffsetsRequest(group_id="g", topics=topics)
        return self.send(request, 0, "alter")

    def delete(self, *names: str) -> Any:
        """Delete the offsets of topics; return the answer, or None if it waits."""
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
        request = DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)
        return self.send(request, 0, "delete")

    def answer_one(self, failing: int, error: ErrorCode) -> None:
        """Answer the request that waits; one partition of its first topic fails."""
        (request,) = self.state_requests
        self.state_requests.clear()
        answer = same_answer(request.message)
        parts = answer.results[0].partitions
        parts[failing].error_code, parts[failing].error_message = error, "because"
        self.carry_out(self.coordinator.state_answered(request, answer, self.now_ms))


def errors_of(answer: Any) -> list[tuple[int, int, str | None]]:
    """Return partition, error and text of each partition of an answer."""
    return [
        (each.partition_index, each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
    ]


def test_altered_partitions_are_initialized_in_the_epoch_of_the_group() -> None:
    """[share-groups/alter-offsets]"""
    harness = OffsetsHarness()
    harness.share_beat(0, "foo")
    harness.answer_state()
    harness.share_beat(-1)
    assert harness.alter(foo={1: 8}, bar={0: 4}) is None
    group = harness.share_group
    assert group.state_partitions.initializing[topic_id("foo")].partitions == {1}
    assert group.state_partitions.initialized[topic_id("foo")].partitions == {0, 1}
    (request,) = harness.state_requests
    assert isinstance(request.message, InitializeShareGroupStateRequest)
    assert {
        (topic.topic_id, each.partition, each.state_epoch, each.start_offset)
        for topic in request.message.topics
        for each in topic.partitions
    } == {(topic_id("foo"), 1, 3, 8), (topic_id("bar"), 0, 3, 4)}
    harness.answer_state()
    assert errors_of(harness.responses["alter"]) == [(1, 0, None), (0, 0, None)]
    assert not group.state_partitions.initializing
    assert not group.waiting


def test_error_of_a_partition_is_told_and_nothing_is_initialized() -> None:
    harness = OffsetsHarness()
    assert harness.alter(foo={0: 4, 1: 5}) is None
    harness.answer_one(1, ErrorCode.FENCED_STATE_EPOCH)
    expected = [(0, 0, None), (1, ErrorCode.FENCED_STATE_EPOCH, "because")]
    assert errors_of(harness.responses["alter"]) == expected
    parts = harness.share_group.state_partitions
    assert (parts.initializing, parts.initialized) == ({}, {})


def test_topic_whose_state_is_not_deleted_can_be_deleted_again() -> None:
    """[share-groups/delete-offsets]"""
    harness = OffsetsHarness()
    harness.alter(foo={0: 4}, bar={0: 4})
    harness.answer_state()
    assert harness.delete("bar", "foo") is None
    assert harness.share_group.waits_for(harness.now_ms) is not None
    (request,) = harness.state_requests
    assert isinstance(request.message, DeleteShareGroupStateRequest)
    failed, deleted = (each.topic_id for each in request.message.topics)
    harness.answer_one(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    found = {each.topic_id: each.error_code for each in harness.responses["delete"].responses}
    assert found == {failed: ErrorCode.COORDINATOR_NOT_AVAILABLE, deleted: ErrorCode.NONE}
    assert list(harness.share_group.state_partitions.deleting) == [failed]
    assert harness.delete("bar", "foo") is None
    ((topic,),) = [each.message.topics for each in harness.state_requests]
    assert topic.topic_id == failed
    harness.answer_state()
    assert not harness.share_group.state_partitions.deleting
    assert harness.logged().keys() == {"g state partitions"}


def test_waiting_requests_are_answered_when_the_partition_is_given_up() -> None:
    harness = OffsetsHarness()
    harness.holds = True
    harness.alter(foo={0: 4})
    (partition,) = [each for each, log in enumerate(harness.logs) if log.pending]
    harness.lose(partition=partition)
    answer = harness.responses["alter"]
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert answer.error_message == "The coordinator is not available."
    assert harness.coordinator.group("g") is None


def test_altered_group_is_there_after_a_restart() -> None:
    harness = OffsetsHarness()
    harness.alter(foo={0: 4})
    harness.answer_state()
    before = harness.logged()
    harness.restart()
    assert harness.logged() == before
    group = harness.share_group
    assert (group.state_name, group.epoch, group.target_epoch) == ("Empty", 1, 1)
    assert group.state_partitions.initialized[topic_id("foo")].partitions == {0}
