"""CreatePartitions (API key 37): add partitions to topics (KIP-195).

v1   the client itself waits for the throttle time (KIP-219)
v2   flexible encoding (KIP-482)
v3   the error may be THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Boolean, Int16, Int32, Message, String, Struct, message, struct


@struct
class CreatePartitionsRequestAssignment(Struct):
    """The brokers of one new partition, as the client chooses them."""

    broker_ids: list[Int32]


@struct
class CreatePartitionsRequestTopic(Struct):
    """A topic and its new number of partitions; without assignments the broker chooses."""

    name: String
    count: Int32
    assignments: list[CreatePartitionsRequestAssignment] | None = None


@message(api_key=ApiKey.CREATE_PARTITIONS, flexible=2)
class CreatePartitionsRequest(Message):
    """The topics to change; with `validate_only` the change is only checked."""

    topics: list[CreatePartitionsRequestTopic]
    timeout_ms: Int32
    validate_only: Boolean


@struct
class CreatePartitionsResponseResult(Struct):
    """The result for one topic."""

    name: String
    error_code: Int16
    error_message: String | None = None


@message(api_key=ApiKey.CREATE_PARTITIONS, flexible=2)
class CreatePartitionsResponse(Message):
    """One result for each topic."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsResponseResult]
