"""WriteTxnMarkers (API key 27): end transactions in partitions, as a coordinator or by force.

v1   flexible encoding
v2   transaction_version (KIP-1228)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)


@struct
class WriteTxnMarkersRequestTopic(Struct):
    """The partitions of one topic that get a marker."""

    name: String
    partition_indexes: list[Int32]


@struct
class WriteTxnMarkersRequestMarker(Struct):
    """The end of one producer's transaction."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Boolean
    topics: list[WriteTxnMarkersRequestTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = since(2, default=0)


@message(api_key=ApiKey.WRITE_TXN_MARKERS, flexible=1)
class WriteTxnMarkersRequest(Message):
    """The markers to append."""

    markers: list[WriteTxnMarkersRequestMarker]


@struct
class WriteTxnMarkersResponsePartition(Struct):
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16


@struct
class WriteTxnMarkersResponseTopic(Struct):
    """The results for one topic."""

    name: String
    partitions: list[WriteTxnMarkersResponsePartition]


@struct
class WriteTxnMarkersResponseMarker(Struct):
    """The results for one producer."""

    producer_id: Int64
    topics: list[WriteTxnMarkersResponseTopic]


@message(api_key=ApiKey.WRITE_TXN_MARKERS, flexible=1)
class WriteTxnMarkersResponse(Message):
    """The results for all markers."""

    markers: list[WriteTxnMarkersResponseMarker]
