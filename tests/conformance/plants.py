"""Bugs planted into the handlers of records and topics, each with the check that should find it.

A text is replaced where one condition on what a function has looked up is left out: neither an
argument nor a call stands for it.
"""

import re

from coterie.protocol.errors import ErrorCode
from tests.faults import Of, answers, calling, confuses, given, lacking, where
from tests.planting import Plant

PLANTS: tuple[Plant, ...] = (
    Plant(
        "any number of acknowledgements is accepted",
        "coterie.server.handlers.produce_partitions:append_to",
        fault=where(_VALID_ACKS=range(-(1 << 15), 1 << 15)),
        kinds=("produce/bad_acks/two",),
    ),
    Plant(
        "clients may write to internal topics",
        "coterie.server.handlers.produce_partitions:append_to",
        "if partition.topic.is_own or partition.topic.is_internal:",
        "if False:",
        ("produce/internal_topic",),
    ),
    Plant(
        "duplicates are stored again",
        "coterie.server.handlers.produce_partitions:_append_validated",
        fault=calling("coterie.storage.producer_state:ProducerState.check", lacking(1)),
        kinds=("idempotence/duplicate",),
    ),
    Plant(
        "the checksum of a batch is not compared",
        "coterie.server.logs.log_validator:validate_batch",
        fault=calling("coterie.protocol.record_batch:check_crc", answers(value=True)),
        kinds=("produce/broken_batch/wrong_checksum",),
    ),
    Plant(
        "the size of a batch is not limited",
        "coterie.server.logs.log_validator:validate_batch",
        fault=given({"partition.topic.config.max_message_bytes": 1 << 31}),
        kinds=("produce/too_large",),
    ),
    Plant(
        "the number of records in the header is not compared with the offsets",
        "coterie.server.logs.log_validator:validate_batch",
        "if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:",
        "if False:",
        ("produce/broken_batch/wrong_last_offset",),
    ),
    Plant(
        "clients may write control batches",
        "coterie.server.logs.log_validator:validate_batch",
        fault=calling("coterie.protocol.record_batch:BatchHeader.is_control", answers(value=False)),
        kinds=("produce/broken_batch/control",),
    ),
    Plant(
        "zstd is accepted in every version",
        "coterie.server.logs.received_batches:only_batch",
        fault=where(_ZSTD_SINCE=0),
        kinds=("produce/zstd_too_early",),
    ),
    Plant(
        "gaps in sequences are accepted",
        "coterie.storage.producer_state:ProducerState.check",
        fault=confuses((ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None), (ErrorCode.NONE, None)),
        kinds=("idempotence/gap",),
    ),
    Plant(
        "old epochs of producers are accepted",
        "coterie.storage.producer_state:ProducerState.check",
        fault=confuses((ErrorCode.INVALID_PRODUCER_EPOCH, None), (ErrorCode.NONE, None)),
        kinds=("idempotence/old_epoch",),
    ),
    Plant(
        "only the last batch of a producer is known",
        "coterie.storage.producer_state:ProducerState._find_older",
        fault=answers(None),
        kinds=("idempotence/five_batches_are_known",),
    ),
    Plant(
        "an offset beyond the end is fetched",
        "coterie.server.logs.fetching:Read.read_partition",
        "if not log.log_start_offset <= wanted.offset <= end:",
        "if not log.log_start_offset <= wanted.offset:",
        ("fetch/beyond_the_end/above",),
    ),
    Plant(
        "the first batch is cut at the limit",
        "coterie.server.logs.fetching:Read.read_partition",
        "if len(data) > allowed and not first:",
        "if len(data) > allowed:",
        ("fetch/first_batch_is_whole",),
    ),
    Plant(
        "the epoch of a fetch session is not compared",
        "coterie.server.logs.fetch_sessions:FetchSessionCache.find",
        fault=given(epoch=Of("self._sessions[session_id].epoch")),
        kinds=("fetch_sessions/wrong_epoch",),
    ),
    Plant(
        "a session that was opened with ids accepts names",
        "coterie.server.logs.fetch_sessions:FetchSessionCache.find",
        fault=given(uses_topic_ids=Of("self._sessions[session_id].uses_topic_ids")),
        kinds=("fetch_sessions/names_and_ids",),
    ),
    Plant(
        "special times are known in every version",
        "coterie.server.handlers.list_offsets:_answer",
        fault=where(_SINCE=dict.fromkeys(range(-10, 0), 0)),
        kinds=("list_offsets/largest_timestamp_too_early",),
    ),
    Plant(
        "a partition that is named twice is answered",
        "coterie.server.handlers.list_offsets:_answer",
        "elif index in answers:",
        "elif False:",
        ("list_offsets/named_twice",),
    ),
    Plant(
        "records of compacted topics are deleted",
        "coterie.server.handlers.delete_records:_delete",
        "if config.compact and not config.delete:",
        "if False:",
        ("delete_records/compacted_topic",),
    ),
    Plant(
        "records beyond the end are deleted",
        "coterie.server.handlers.delete_records:_delete",
        "if not 0 <= offset <= end:",
        "if not 0 <= offset:",
        ("delete_records/beyond_the_end",),
    ),
    Plant(
        "a request that only validates creates topics",
        "coterie.server.handlers.create_topics:_create_all",
        fault=calling("coterie.server.handlers.create_topics:_create", given(only_check=False)),
        kinds=("topics/validate_only",),
    ),
    Plant(
        "an unknown topic is created against the client's will",
        "coterie.server.handlers.metadata:_create_missing",
        fault=given(may_create=True),
        kinds=("metadata/unknown_topic",),
    ),
    Plant(
        "an unknown id of a topic is answered as an unknown name",
        "coterie.server.handlers.metadata:_add_asked",
        fault=calling(
            "coterie.server.handlers.topic_descriptions:TopicDescriptions.add_error",
            given(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ErrorCode.UNKNOWN_TOPIC_ID,
        ),
        kinds=("metadata/unknown_id",),
    ),
    Plant(
        "the name of a client may have any characters",
        "coterie.server.handlers.api_versions:handle",
        fault=where(_SOFTWARE=re.compile(".*")),
        kinds=("api_versions/bad_software_name/underscore",),
    ),
    Plant(
        "a fetch by id with an unknown isolation level has partitions",
        "coterie.server.handlers.plain_fetch:refused_as_a_whole",
        fault=where(TOPIC_IDS_SINCE=1 << 15),
        kinds=("fetch/unknown_isolation_with_topic_ids",),
    ),
    Plant(
        "a marker may have an epoch that no batch has",
        "coterie.server.handlers.write_txn_markers:handle",
        fault=where(_NO_EPOCH=None),
        kinds=("transaction_markers/impossible_epoch",),
    ),
    Plant(
        "brokers may not verify internal topics",
        "coterie.server.handlers.add_partitions_to_txn:_Answer._refusals",
        "INTERNAL_TOPICS if self._is_of_producer else ()",
        "INTERNAL_TOPICS",
        ("add_partitions_batched/internal_topics",),
    ),
)
