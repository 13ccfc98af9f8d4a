"""ListPartitionReassignments: with one broker no partition is ever being moved (KIP-455).

[topics/one-broker]
"""

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def handle(
    _broker: Services, _request: ListPartitionReassignmentsRequest, _connection: Exchange
) -> ListPartitionReassignmentsResponse:
    """Return an empty list, also for topics that do not exist."""
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, error_message=None, topics=[]
    )
