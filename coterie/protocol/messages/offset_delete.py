"""OffsetDelete (API key 47): delete committed offsets of topics that a group no longer reads
(KIP-496).

v0   the only version, not flexible
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Message, String, Struct, message, struct


@struct
class OffsetDeleteRequestPartition(Struct):
    """A partition whose offset is to be deleted."""

    partition_index: Int32


@struct
class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: list[OffsetDeleteRequestPartition]


@message(api_key=ApiKey.OFFSET_DELETE, flexible=None)
class OffsetDeleteRequest(Message):
    """The group and the offsets to delete."""

    group_id: String
    topics: list[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition(Struct):
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16


@struct
class OffsetDeleteResponseTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: list[OffsetDeleteResponsePartition]


@message(api_key=ApiKey.OFFSET_DELETE, flexible=None)
class OffsetDeleteResponse(Message):
    """One result for each partition; no topics if there is an error of the whole group."""

    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic]
