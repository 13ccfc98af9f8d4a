"""OffsetDelete (api key 47): forget the offsets of topics a group no longer reads (KIP-496).

v0   the only one, not flexible
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Message, String, Struct, message, struct


@struct
class OffsetDeleteRequestPartition(Struct):
    """A partition whose offset goes."""

    partition_index: Int32


@struct
class OffsetDeleteRequestTopic(Struct):
    """Partitions of one topic."""

    name: String
    partitions: list[OffsetDeleteRequestPartition]


@message(api_key=ApiKey.OFFSET_DELETE, flexible=None)
class OffsetDeleteRequest(Message):
    """The group, and the offsets it shall forget."""

    group_id: String
    topics: list[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition(Struct):
    """What became of one of them."""

    partition_index: Int32
    error_code: Int16


@struct
class OffsetDeleteResponseTopic(Struct):
    """The partitions of one topic."""

    name: String
    partitions: list[OffsetDeleteResponsePartition]


@message(api_key=ApiKey.OFFSET_DELETE, flexible=None)
class OffsetDeleteResponse(Message):
    """No topics where the group as a whole is refused."""

    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic]
