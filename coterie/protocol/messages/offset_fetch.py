"""OffsetFetch (API key 9): fetch the committed offsets of groups.

v0   offsets that Kafka kept in ZooKeeper; served as [framing/older-releases] says
v1   the first one of Kafka 4
v2   null topics select all of them, error_code of the whole response (KIP-88)
v3   throttle_time_ms (KIP-124)
v4   the client itself waits for the throttle time (KIP-219)
v5   committed_leader_epoch (KIP-320)
v6   flexible encoding (KIP-482)
v7   require_stable (KIP-447)
v8   several groups in one request (KIP-709)
v9   member_id and member_epoch (KIP-848)
v10  topic_id in place of name (KIP-848)
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
    """A topic and its partitions: by name to v9, by id from v10 on."""

    name: String = until(9, default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partition_indexes: list[Int32]


@struct
class OffsetFetchRequestGroup(Struct):
    """A group (v8 and later); null topics select all that it has committed."""

    group_id: String
    member_id: String | None = since(9, default=None)
    member_epoch: Int32 = since(9, default=-1)
    topics: list[OffsetFetchRequestTopic] | None


@message(api_key=ApiKey.OFFSET_FETCH, flexible=6)
class OffsetFetchRequest(Message):
    """The offsets to fetch: `group_id` and `topics` to v7, `groups` from v8 on."""

    group_id: String = until(7, default="")
    topics: list[OffsetFetchRequestTopic] | None = until(7, factory=list, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = since(8, factory=list)
    require_stable: Boolean = since(7, default=False)


@struct
class OffsetFetchResponsePartition(Struct):
    """The committed offset; offset -1, epoch -1 and empty metadata if there is none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(5, default=-1)
    metadata: String | None
    error_code: Int16


@struct
class OffsetFetchResponseTopic(Struct):
    """The partitions of one topic, which is named as in the request."""

    name: String = until(9, default="")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponseGroup(Struct):
    """The result for one group (v8 and later)."""

    group_id: String
    topics: list[OffsetFetchResponseTopic]
    error_code: Int16


@message(api_key=ApiKey.OFFSET_FETCH, flexible=6)
class OffsetFetchResponse(Message):
    """The result for the one group to v7, `groups` from v8 on.

    v0 and v1 have no `error_code`; there an error of the group is repeated for every partition.
    """

    throttle_time_ms: Int32 = since(3, default=0)
    topics: list[OffsetFetchResponseTopic] = until(7, factory=list)
    error_code: Int16 = since(2, last=7, default=0)
    groups: list[OffsetFetchResponseGroup] = since(8, factory=list)
