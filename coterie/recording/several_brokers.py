"""What is different about a recording of several brokers, which is replayed to one.

The one broker leads and coordinates everything. So requests that another broker would have had to
answer are not sent, nor those that move replicas; epochs of leaders and replicas are left out of
requests, and who leads what is not compared [recording/several-brokers].
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.fields import Declaration
from coterie.protocol.messages.create_partitions import CreatePartitionsRequest
from coterie.protocol.messages.create_topics import CreateTopicsRequest
from coterie.protocol.schema import fields_of
from coterie.recording.comparison import Difference
from coterie.recording.conversation import RecordedExchange

# Who leads, coordinates and has replicas, and where brokers listen.
_PLACES = re.compile(
    r"(^|\.)(brokers|node_endpoints)\[|(^|\.)current_leader\b"
    r"|(^|\.)(controller_id|leader_id|leader_epoch|replica_nodes|isr_nodes|offline_replicas"
    r"|eligible_leader_replicas|last_known_elr|node_id|host|port|preferred_read_replica"
    r"|replication_factor)$"
)
_ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
# What they are about does not exist with one broker.
_OF_REPLICAS = frozenset(
    {
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    }
)
_EPOCHS = ("current_leader_epoch", "last_fetched_epoch")
_NO_EPOCH = -1
_OF_SESSIONS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})


def without_places(differences: Iterable[Difference]) -> list[Difference]:
    """Return the differences that are not about who leads what, and where."""
    return [each for each in differences if not _PLACES.search(each.field)]


def reason_to_skip(exchange: RecordedExchange) -> str:
    """Return why a request of a recording of several brokers is not sent to one; or nothing."""
    if exchange.api in _OF_REPLICAS:
        return "one broker has no other replicas"
    # These are part of a session, whose requests are counted.
    if exchange.api in _OF_SESSIONS:
        return ""
    refusal = refusal_of_another(exchange.response)
    return f"the recorded broker was not in charge: {refusal}" if refusal else ""


def refusal_of_another(response: Declaration | None) -> str:
    """Return the error of a broker that does not lead a partition of the request; or nothing."""
    codes = [] if response is None else _error_codes(response)
    return next((ErrorCode(each).name for each in codes if each in _ELSEWHERE), "")


def fit_to_one(request: Any) -> None:
    """Let a request name no epoch of a leader, and no replicas: those of one broker are others."""
    for struct in _structs(request):
        for name in _EPOCHS:
            if hasattr(struct, name):
                setattr(struct, name, _NO_EPOCH)
    if isinstance(request, CreateTopicsRequest):
        for topic in request.topics:
            topic.num_partitions = len(topic.assignments) or topic.num_partitions
            topic.replication_factor = min(topic.replication_factor, 1)
            if topic.assignments:
                topic.replication_factor, topic.assignments = 1, []
    elif isinstance(request, CreatePartitionsRequest):
        for each in request.topics:
            each.assignments = None


def _error_codes(message: Declaration) -> Iterator[int]:
    for struct in _structs(message):
        code = getattr(struct, "error_code", ErrorCode.NONE)
        if code:
            yield code


def _structs(message: Declaration) -> Iterator[Any]:
    """Yield a message and all structures in it."""
    yield message
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Declaration):
                yield from _structs(each)
