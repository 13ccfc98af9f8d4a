"""ElectLeaders: let the preferred replica lead, or any live one where nothing leads (KIP-460).

If there is one broker, no election is ever needed [topics/one-broker].
"""

from collections.abc import Generator
from functools import partial

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)
from coterie.server.cluster.elections import leader_moved
from coterie.server.cluster.image import NO_LEADER, Placement
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices, made_in_steps
from coterie.server.services import Services

# Kafka's texts.
_TEXTS = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


def handle(
    broker: Services, request: ElectLeadersRequest, connection: Exchange
) -> ElectLeadersResponse | None:
    """Elect the leader of each named partition, if that is needed."""
    return answer_in_slices(broker, connection, _answer(broker, request))


def _answer(
    broker: Services, request: ElectLeadersRequest
) -> Generator[None, None, ElectLeadersResponse]:
    is_known = request.election_type in (PREFERRED, UNCLEAN)
    named = request.topic_partitions
    if named is None:
        # Kafka lists every topic, and of its partitions those that need an election.
        names = sorted(broker.topics.by_name) if is_known else []
        named = [
            ElectLeadersRequestTopic(topic=name, partitions=_needing(broker, request, name))
            for name in names
        ]
    results = []
    for each in named:
        yield
        result = partial(_result, broker, request, each.topic)
        partitions = yield from made_in_steps(result, each.partitions)
        results.append(ElectLeadersResponseTopic(topic=each.topic, partition_result=partitions))
    error = ErrorCode.NONE if is_known else ErrorCode.INVALID_REQUEST
    return ElectLeadersResponse(error_code=error, replica_election_results=results)


def _result(
    broker: Services, request: ElectLeadersRequest, name: str, index: int
) -> ElectLeadersResponsePartition:
    topic = broker.topics.by_name.get(name)
    text: str | None
    if request.election_type not in (PREFERRED, UNCLEAN):
        error, text = ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
    elif topic is None:
        error, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not topic.has(index):
        error, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    else:
        error = _elect(broker, request, name, index)
        text = _TEXTS.get(error)
    return ElectLeadersResponsePartition(partition_id=index, error_code=error, error_message=text)


def _elect(broker: Services, request: ElectLeadersRequest, name: str, index: int) -> ErrorCode:
    """Elect the leader of a partition; return the error if it is not elected."""
    leadership = broker.leadership
    where = None if leadership is None else leadership.image.placed(name, index)
    if leadership is None or where is None or not _needs_election(request, where):
        return ErrorCode.ELECTION_NOT_NEEDED
    if request.election_type == PREFERRED:
        elected = [each for each in where.replicas[:1] if each in where.isr]
        error = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        elected = [each for each in where.replicas if each in leadership.image.live_ids]
        error = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if not elected:
        return error
    leadership.change(leader_moved(leadership.image, name, index, elected[0]))
    return ErrorCode.NONE


def _needs_election(request: ElectLeadersRequest, where: Placement) -> bool:
    if request.election_type == PREFERRED:
        return where.leader_id != where.replicas[0]
    return where.leader_id == NO_LEADER


def _needing(broker: Services, request: ElectLeadersRequest, name: str) -> list[int]:
    """Return the partitions of a topic that need an election."""
    if broker.leadership is None:
        return []
    placed = broker.leadership.image.placements.get(name, ())
    return [index for index, where in enumerate(placed) if _needs_election(request, where)]
