"""ElectLeaders: one broker leads every partition, so no election is ever needed (KIP-460).

[topics/one-broker]
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
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices, made_in_steps
from coterie.server.services import Services


def handle(
    broker: Services, request: ElectLeadersRequest, connection: Exchange
) -> ElectLeadersResponse | None:
    """Answer that the leader of each named partition is the preferred one."""
    return answer_in_slices(broker, connection, _answer(broker, request))


def _answer(
    broker: Services, request: ElectLeadersRequest
) -> Generator[None, None, ElectLeadersResponse]:
    is_known = request.election_type in (PREFERRED, UNCLEAN)
    named = request.topic_partitions
    if named is None:
        # Kafka lists every topic, and of its partitions those that needed an election: none.
        names = sorted(broker.topics.by_name) if is_known else []
        named = [ElectLeadersRequestTopic(topic=name, partitions=[]) for name in names]
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
    if request.election_type not in (PREFERRED, UNCLEAN):
        error, text = ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
    elif topic is None:
        error, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not topic.has(index):
        error, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    else:
        error = ErrorCode.ELECTION_NOT_NEEDED
        text = "Leader election not needed for topic partition."
    return ElectLeadersResponsePartition(partition_id=index, error_code=error, error_message=text)
