"""OffsetFetch (api key 9): ask how far a group, or several, have read.

v1   the first one served (v0 asked ZooKeeper)
v2   null topics for all of them, top-level error (KIP-88)
v3   throttle time (KIP-124)
v4   clients throttle themselves (KIP-219)
v5   committed_leader_epoch (KIP-320)
v6   flexible (KIP-482)
v7   require_stable (KIP-447)
v8   many groups (KIP-709)
v9   member_id and member_epoch (KIP-848)
v10  topic ids in place of names (KIP-848)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    ZERO_UUID,
    Boolean,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
    until,
)


@struct
class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic, by name (to v9) or by id."""

    name: String = until(9, default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestGroup(Struct):
    """One group (v8 and later); null topics ask for all it has committed."""

    group_id: String
    member_id: String | None = since(9, default=None)
    member_epoch: Int32 = since(9, default=-1)
    topics: list[OffsetFetchRequestTopic] | None


@message(api_key=ApiKey.OFFSET_FETCH, flexible=6)
class OffsetFetchRequest(Message):
    """The one group of v1-7, or the groups of v8 and later."""

    group_id: String = until(7, default="")
    topics: list[OffsetFetchRequestTopic] | None = until(7, factory=list, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = since(8, factory=list)
    require_stable: Boolean = since(7, default=False)


@struct
class OffsetFetchResponsePartition(Struct):
    """Offset -1, leader epoch -1 and empty metadata where nothing is committed."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(5, default=-1)
    metadata: String | None
    error_code: Int16


@struct
class OffsetFetchResponseTopic(Struct):
    """The partitions of one topic, named as in the request."""

    name: String = until(9, default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponseGroup(Struct):
    """The answer about one group (v8 and later)."""

    group_id: String
    topics: list[OffsetFetchResponseTopic]
    error_code: Int16


@message(api_key=ApiKey.OFFSET_FETCH, flexible=6)
class OffsetFetchResponse(Message):
    """v1 has no top-level error: there a group's error stands on every partition."""

    throttle_time_ms: Int32 = since(3, default=0)
    topics: list[OffsetFetchResponseTopic] = until(7, factory=list)
    error_code: Int16 = since(2, last=7, default=0)
    groups: list[OffsetFetchResponseGroup] = since(8, factory=list)
