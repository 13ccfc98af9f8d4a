"""A broker with a share group's partition, and members that fetch and acknowledge."""

from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    InitializeStateTopic,
)
from coterie.protocol.messages.share_acknowledge import (
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeTopic,
)
from coterie.protocol.messages.share_fetch import (
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from coterie.protocol.messages.share_session_parts import AcknowledgementBatch
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.produced import batch, produce

GROUP = "g"
# First and last offset, and the types.
AcknowledgedRange = tuple[int, ...]
LOCK_MS = 30_000
# Of an incremental alteration of configs: the resource of groups, and its operation SET.
GROUP_RESOURCE = 32


class Sharing:
    """A broker with a topic of one partition and a share group that reads it from its start.

    Attributes:
        broker, client: the broker, and a client that is no member.
        topic_id: the id of the topic.
    """

    def __init__(self, *batches: int, settings: dict[str, str] | None = None, **group: str) -> None:
        """Produce batches with so many records each.

        Args:
            batches: numbers of records.
            settings: of the broker.
            group: settings of the group without `share.`, with underscores for dots.
        """
        given = {"share.coordinator.state.topic.num.partitions": "2", **(settings or {})}
        self.broker = make_broker(given)
        self.client = Client(self.broker)
        self.topic_id = self.broker.controller.create("t", 1, {}).topic_id
        self.set_group(auto_offset_reset="earliest", **group)
        self.broker.share_state.create_topic()
        self.client.loop.turn()
        self.initialize()
        self.produce(*batches)

    def set_group(self, **group: str) -> None:
        """Replace the settings of the group."""
        values = {f"share.{name.replace('_', '.')}": value for name, value in group.items()}
        self.broker.config.set_resources(GROUP_RESOURCE, {GROUP: values})

    def initialize(self, start_offset: int = -1, state_epoch: int = 2) -> None:
        """Begin the state of the share partition."""
        asked = InitializeStatePartition(
            partition=0, state_epoch=state_epoch, start_offset=start_offset
        )
        topics = [InitializeStateTopic(topic_id=self.topic_id, partitions=[asked])]
        request = InitializeShareGroupStateRequest(group_id=GROUP, topics=topics)
        (result,) = self.client.call(request, 0).results
        assert result.partitions[0].error_code == ErrorCode.NONE

    def produce(self, *batches: int) -> None:
        """Produce batches with so many records each."""
        for count in batches:
            assert not produce(self.client, batch(*[b"v"] * count)).error_code

    def member(self, name: str) -> "ShareMember":
        """Return a member with a connection of its own."""
        return ShareMember(self, name)


class ShareMember:
    """A member of the share group; its requests have ascending epochs.

    Attributes:
        client: its connection.
        epoch: the epoch of its next request.
    """

    def __init__(self, sharing: Sharing, name: str, client: Client | None = None) -> None:
        self.sharing = sharing
        self.name = name
        self.client = Client(sharing.broker) if client is None else client
        self.epoch = 0

    def fetch_request(self, *batches: AcknowledgedRange, **fields: Any) -> ShareFetchRequest:
        """Return a fetch of the partition, with acknowledgements."""
        given: dict[str, Any] = {
            "max_wait_ms": 0, "min_bytes": 1, "max_records": 500, "batch_size": 500,
            "share_session_epoch": self.epoch, "forgotten_topics_data": [],
        } | fields  # fmt: skip
        asked = ShareFetchPartition(partition_index=0, acknowledgement_batches=_wire(batches))
        given.setdefault(
            "topics", [ShareFetchTopic(topic_id=self.sharing.topic_id, partitions=[asked])]
        )
        return ShareFetchRequest(group_id=GROUP, member_id=self.name, **given)

    def advance(self) -> None:
        """Use the next epoch from now on."""
        self.epoch += 1

    def fetch(self, *batches: AcknowledgedRange, **fields: Any) -> Any:
        """Fetch; return the response."""
        request = self.fetch_request(*batches, **fields)
        self.advance()
        return self.client.call(request, 2)

    def acquire(self, *batches: AcknowledgedRange, **fields: Any) -> list[tuple[int, int, int]]:
        """Fetch; return what was acquired of the partition: first, last, count."""
        return acquired(self.fetch(*batches, **fields))

    def acknowledge(self, *batches: AcknowledgedRange, **fields: Any) -> tuple[int, str | None]:
        """Acknowledge records; return the error and message of the partition."""
        answer = self.acknowledged(*batches, **fields)
        if answer.error_code or not answer.responses:
            return answer.error_code, None
        ((part,),) = [each.partitions for each in answer.responses]
        return part.error_code, part.error_message

    def acknowledged(self, *batches: AcknowledgedRange, **fields: Any) -> Any:
        """Acknowledge records; return the response."""
        asked = ShareAcknowledgePartition(partition_index=0, acknowledgement_batches=_wire(batches))
        given: dict[str, Any] = {
            "share_session_epoch": self.epoch,
            "topics": [ShareAcknowledgeTopic(topic_id=self.sharing.topic_id, partitions=[asked])],
        } | fields
        request = ShareAcknowledgeRequest(group_id=GROUP, member_id=self.name, **given)
        self.advance()
        return self.client.call(request, 2)


def acquired(response: Any) -> list[tuple[int, int, int]]:
    """Return what a response says was acquired of the partition; it has no error."""
    assert response.error_code == ErrorCode.NONE
    parts = [each for topic in response.responses for each in topic.partitions]
    assert all(each.error_code == ErrorCode.NONE for each in parts)
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for part in parts
        for each in part.acquired_records
    ]


def _wire(batches: tuple[AcknowledgedRange, ...]) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch.of(first, last, list(types)) for first, last, *types in batches]
