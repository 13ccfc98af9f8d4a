"""What a share group asks of the share coordinator, as data [share-groups/initialization].

A verb hands the request over in its effects when its own records are durable. The runtime sends
`message` to the share coordinators of its partitions, and gives the whole answer back to
`GroupCoordinator.state_answered`.
"""

from typing import Any

from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from coterie.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from coterie.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStatePartitionResult,
    DeleteStateTopicResult,
)
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStatePartitionResult,
    InitializeStateTopicResult,
)

# The answer to a client that has changed offsets.
OffsetsResponse = AlterShareGroupOffsetsResponse | DeleteShareGroupOffsetsResponse


class StateRequest:
    """A request of one group.

    Attributes:
        group: the group. One that was deleted and created again is another one.
        message: what is asked.
        context: the client whose request it follows from.
        to: where that client's answer goes: the place of the group in a DeleteGroups, or the
            address of an answer about offsets; None if nobody waits.
        asked: the request that waits, or the part of one; None if nobody waits.
        response: the answer about offsets, to which the errors of partitions are missing.
    """

    __slots__ = ("asked", "context", "group", "message", "response", "to")

    def __init__(
        self,
        group: Any,
        message: InitializeShareGroupStateRequest | DeleteShareGroupStateRequest,
        context: RequestContext,
        to: Any = None,
        *,
        asked: Any = None,
        response: OffsetsResponse | None = None,
    ) -> None:
        assert (to is None) == (asked is None), "who waits for an answer has asked"
        self.group = group
        self.message = message
        self.context = context
        self.to = to
        self.asked = asked
        self.response = response

    def __repr__(self) -> str:
        return f"StateRequest({self.message!r})"


def same_answer(
    message: InitializeShareGroupStateRequest | DeleteShareGroupStateRequest,
    error: ErrorCode = ErrorCode.NONE,
) -> InitializeShareGroupStateResponse | DeleteShareGroupStateResponse:
    """Return an answer with the same result for each partition.

    It is that of a broker that keeps no delivery state, and that of one whose share coordinator
    cannot be asked.
    """
    if isinstance(message, InitializeShareGroupStateRequest):
        return InitializeShareGroupStateResponse(
            results=[
                InitializeStateTopicResult(
                    topic_id=topic.topic_id,
                    partitions=[
                        InitializeStatePartitionResult(partition=each.partition, error_code=error)
                        for each in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateTopicResult(
                topic_id=topic.topic_id,
                partitions=[
                    DeleteStatePartitionResult(partition=each.partition, error_code=error)
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )
