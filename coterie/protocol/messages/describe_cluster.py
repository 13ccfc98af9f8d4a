"""DescribeCluster (API key 60): the brokers, the controller and the cluster id (KIP-700).

v0   flexible encoding
v1   endpoint_type, because controllers serve this API too (KIP-919)
v2   fenced brokers (KIP-1073)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.wire import (
    Boolean,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)

# Endpoint types.
BROKERS = 1
CONTROLLERS = 2


@message(api_key=ApiKey.DESCRIBE_CLUSTER, flexible=0)
class DescribeClusterRequest(Message):
    """The content of the response; `endpoint_type` is one of the constants above."""

    include_cluster_authorized_operations: Boolean
    endpoint_type: Int8 = since(1, default=BROKERS)
    include_fenced_brokers: Boolean = since(2, default=False)


@struct
class DescribeClusterResponseBroker(Struct):
    """A broker and its address."""

    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = None
    is_fenced: Boolean = since(2, default=False)


@message(api_key=ApiKey.DESCRIBE_CLUSTER, flexible=0)
class DescribeClusterResponse(Message):
    """The cluster from the broker's point of view."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    endpoint_type: Int8 = since(1, default=BROKERS)
    cluster_id: String
    controller_id: Int32 = -1
    brokers: list[DescribeClusterResponseBroker]
    cluster_authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED
