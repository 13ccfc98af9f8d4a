"""DescribeCluster: the brokers of the cluster (KIP-700) [topics/one-broker]."""

from coterie.protocol.authorized_operations import (
    AUTHORIZED_OPERATIONS_OMITTED,
    CLUSTER_OPERATIONS,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_cluster import (
    BROKERS,
    CONTROLLERS,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_NOT_A_CONTROLLER = (
    "The request was sent to an endpoint of type BROKER,"
    " but we wanted an endpoint of type CONTROLLER"
)


def handle(
    broker: Services, request: DescribeClusterRequest, connection: Exchange
) -> DescribeClusterResponse:
    """Describe the cluster; requests for a controller's endpoint are refused."""
    if request.endpoint_type == CONTROLLERS:
        return _refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, _NOT_A_CONTROLLER)
    if request.endpoint_type != BROKERS:
        text = f"Unsupported endpoint type {request.endpoint_type}"
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, text)
    operations = AUTHORIZED_OPERATIONS_OMITTED
    if request.include_cluster_authorized_operations:
        operations = CLUSTER_OPERATIONS
    image, listener = broker.image, connection.client.listener
    fenced = image.fenced_endpoints(listener) if request.include_fenced_brokers else []
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterResponseBroker(
                broker_id=each.node_id,
                host=each.host,
                port=each.port,
                rack=each.rack,
                is_fenced=each in fenced,
            )
            for each in sorted([*image.endpoints(listener), *fenced])
        ],
        cluster_authorized_operations=operations,
    )


def _refused(error: ErrorCode, text: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error, error_message=text, cluster_id="", brokers=[])
