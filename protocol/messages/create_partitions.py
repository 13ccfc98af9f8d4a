"""CreatePartitions (api key 37): give topics more partitions (KIP-195).

v1   clients throttle themselves (KIP-219)
v2   flexible (KIP-482)
v3   may answer THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Boolean, Int16, Int32, Message, String, Struct, message, struct


@struct
class CreatePartitionsRequestAssignment(Struct):
    """The brokers of one new partition, where the caller chooses."""

    broker_ids: list[Int32]


@struct
class CreatePartitionsRequestTopic(Struct):
    """A topic and how many partitions it shall have; null assignments leave them to the broker."""

    name: String
    count: Int32
    assignments: list[CreatePartitionsRequestAssignment] | None = None


@message(api_key=ApiKey.CREATE_PARTITIONS, flexible=2)
class CreatePartitionsRequest(Message):
    """The topics, to be changed or (validate_only) only checked."""

    topics: list[CreatePartitionsRequestTopic]
    timeout_ms: Int32
    validate_only: Boolean


@struct
class CreatePartitionsResponseResult(Struct):
    """What became of one topic."""

    name: String
    error_code: Int16
    error_message: String | None = None


@message(api_key=ApiKey.CREATE_PARTITIONS, flexible=2)
class CreatePartitionsResponse(Message):
    """One result a topic."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsResponseResult]
