"""AlterReplicaLogDirs (API key 34): move logs to other data directories of a broker (KIP-113).

v2   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Message, String, Struct, message, struct


@struct
class AlterReplicaLogDirsRequestTopic(Struct):
    """Partitions of a topic."""

    name: String
    partitions: list[Int32]


@struct
class AlterReplicaLogDirsRequestDir(Struct):
    """A data directory, and the partitions that are to be in it."""

    path: String
    topics: list[AlterReplicaLogDirsRequestTopic]


@message(api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, flexible=2)
class AlterReplicaLogDirsRequest(Message):
    """Where logs are to be."""

    dirs: list[AlterReplicaLogDirsRequestDir]


@struct
class AlterReplicaLogDirsResponsePartition(Struct):
    """The result for a partition."""

    partition_index: Int32
    error_code: Int16


@struct
class AlterReplicaLogDirsResponseTopic(Struct):
    """The results for a topic."""

    topic_name: String
    partitions: list[AlterReplicaLogDirsResponsePartition]


@message(api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, flexible=2)
class AlterReplicaLogDirsResponse(Message):
    """The result for each partition."""

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirsResponseTopic]
