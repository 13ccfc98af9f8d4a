"""DescribeQuorum: the cluster's metadata has one voter, this broker (KIP-595) [topics/quorum]."""

from collections.abc import Generator

from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseReplica,
    DescribeQuorumResponseTopic,
)
from coterie.protocol.topic_names import METADATA_TOPIC
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices, made_in_steps
from coterie.server.services import Services

# The controller is elected once, when the cluster is made.
_LEADER_EPOCH = 1


def handle(
    broker: Services, request: DescribeQuorumRequest, connection: Exchange
) -> DescribeQuorumResponse | None:
    """Describe the quorum if the request names the metadata and nothing else."""
    named = [(topic.topic_name, len(topic.partitions)) for topic in request.topics]
    if named == [(METADATA_TOPIC, 1)] and request.topics[0].partitions[0].partition_index == 0:
        return _response([_topic(METADATA_TOPIC, [_quorum(broker)])], _nodes(broker))
    return answer_in_slices(broker, connection, _refuse(request))


def _refuse(request: DescribeQuorumRequest) -> Generator[None, None, DescribeQuorumResponse]:
    topics = []
    for topic in request.topics:
        yield
        partitions = yield from made_in_steps(
            lambda each: _unknown(each.partition_index), topic.partitions
        )
        topics.append(_topic(topic.topic_name, partitions))
    return _response(topics, [])


def _response(
    topics: list[DescribeQuorumResponseTopic], nodes: list[DescribeQuorumResponseNode]
) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE, error_message="", topics=topics, nodes=nodes
    )


def _topic(
    name: str, partitions: list[DescribeQuorumResponsePartition]
) -> DescribeQuorumResponseTopic:
    return DescribeQuorumResponseTopic(topic_name=name, partitions=partitions)


def _nodes(broker: Services) -> list[DescribeQuorumResponseNode]:
    return [
        DescribeQuorumResponseNode(
            node_id=node.node_id,
            listeners=[
                DescribeQuorumResponseListener(name=name, host=address.host, port=address.port)
                for name, address in node.listeners.items()
            ],
        )
        for node in broker.image.nodes.values()
    ]


def _quorum(broker: Services) -> DescribeQuorumResponsePartition:
    now_ms = broker.environment.now_ms()
    # The image is what Kafka's log of metadata contains; its version counts the changes.
    end = broker.image.version
    voter = DescribeQuorumResponseReplica(
        replica_id=broker.image.controller_id,
        log_end_offset=end,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return DescribeQuorumResponsePartition(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=broker.image.controller_id,
        leader_epoch=_LEADER_EPOCH,
        high_watermark=end,
        current_voters=[voter],
        observers=[],
    )


def _unknown(index: int) -> DescribeQuorumResponsePartition:
    return DescribeQuorumResponsePartition(
        partition_index=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=DEFAULT_MESSAGES[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )
