"""Records and messages of share groups, with Kafka 4.3.1's bytes."""

from typing import Any

import pytest

from coterie.protocol.messages.log_records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from coterie.protocol.messages.share_acknowledge import (
    ShareAcknowledgePartition,
    ShareAcknowledgePartitionResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopic,
    ShareAcknowledgeTopicResponse,
)
from coterie.protocol.messages.share_fetch import (
    AcquiredRecords,
    ShareFetchPartition,
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
    ShareFetchTopicResponse,
)
from coterie.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareHeartbeatAssignment,
    ShareHeartbeatTopicPartitions,
)
from coterie.protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareStateTopic,
    ShareStateTopicPartitions,
    ShareTopicPartitions,
)
from coterie.protocol.messages.share_session_parts import AcknowledgementBatch, ShareLeader
from coterie.protocol.messages.share_state_batch import ShareStateBatch
from coterie.protocol.messages.share_state_records import (
    SHARE_STATE_RECORDS,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsHeartbeatSubtopology,
    StreamsHeartbeatTaskIds,
    StreamsHeartbeatTopology,
)
from coterie.protocol.wire import Message

_FOO = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")
_TIME = 1700000000000
_PARTITION: dict[str, Any] = {"group_id": "grp", "topic_id": _FOO, "partition": 2}
_KEY_BODY = "00036772700000000000000001000000000000000200000002"
_MEMBER: dict[str, Any] = {"group_id": "grp", "member_id": "m1"}
_NOWHERE = ShareLeader(leader_id=0, leader_epoch=0)


def _batch(first: int, last: int, state: int) -> ShareStateBatch:
    return ShareStateBatch(
        first_offset=first, last_offset=last, delivery_state=state, delivery_count=1
    )


RECORDS: dict[str, tuple[Message, str, Message, str]] = {
    "snapshot without offsets": (
        ShareSnapshotKey(**_PARTITION),
        "0000" + _KEY_BODY,
        ShareSnapshotValue(
            snapshot_epoch=0,
            state_epoch=2,
            leader_epoch=0,
            start_offset=-1,
            create_timestamp=_TIME,
            write_timestamp=_TIME,
            state_batches=[],
        ),
        "0000000000000000000200000000ffffffffffffffff0000018bcfe568000000018bcfe568000100",
    ),
    "snapshot": (
        ShareSnapshotKey(**_PARTITION),
        "0000" + _KEY_BODY,
        ShareSnapshotValue(
            snapshot_epoch=1,
            state_epoch=2,
            leader_epoch=5,
            start_offset=10,
            create_timestamp=_TIME,
            write_timestamp=_TIME + 1000,
            state_batches=[_batch(10, 14, 0), _batch(15, 19, 2)],
            delivery_complete_count=5,
        ),
        (
            "0000000000010000000200000005000000000000000a0000018bcfe568000000018bcfe56be803"
            "000000000000000a000000000000000e00000100000000000000000f00000000000000130200010001"
            "000400000005"
        ),
    ),
    "update": (
        ShareUpdateKey(**_PARTITION),
        "0001" + _KEY_BODY,
        ShareUpdateValue(
            snapshot_epoch=0,
            leader_epoch=0,
            start_offset=0,
            state_batches=[_batch(0, 3, 2)],
            delivery_complete_count=4,
        ),
        (
            "000000000000000000000000000000000000020000000000000000000000000000000302000100"
            "01000400000004"
        ),
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_have_kafkas_bytes(name: str) -> None:
    key, key_hex, value, value_hex = RECORDS[name]
    assert SHARE_STATE_RECORDS.encode_key(key).hex() == key_hex
    assert SHARE_STATE_RECORDS.decode_key(bytes.fromhex(key_hex)) == key
    assert SHARE_STATE_RECORDS.encode_value(value).hex() == value_hex
    assert SHARE_STATE_RECORDS.decode_value(key, bytes.fromhex(value_hex)) == value


_TOPIC: dict[str, Any] = {"topic_id": _FOO, "topic_name": "foo"}
_ASSIGNED = [ShareTopicPartitions(topic_id=_FOO, partitions=[0, 1])]
_STATE = [ShareStateTopicPartitions(**_TOPIC, partitions=[0, 1])]
_STATE_KEY = ShareGroupStatePartitionMetadataKey(group_id="grp")
_NO_STATE: dict[str, Any] = {
    "initializing_topics": [],
    "initialized_topics": [],
    "deleting_topics": [],
}
GROUP_RECORDS: dict[str, tuple[Message, str, Message, str]] = {
    "member": (
        ShareGroupMemberMetadataKey(**_MEMBER),
        "000a000367727000026d31",
        ShareGroupMemberMetadataValue(
            rack_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            subscribed_topic_names=["bar", "foo"],
        ),
        "00000002630b2f3132372e302e302e31030462617204666f6f00",
    ),
    "epoch": (
        ShareGroupMetadataKey(group_id="grp"),
        "000b0003677270",
        ShareGroupMetadataValue(epoch=3, metadata_hash=0x1122334455667788),
        "000000000003112233445566778800",
    ),
    "target epoch": (
        ShareGroupTargetAssignmentMetadataKey(group_id="grp"),
        "000c0003677270",
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=3, assignment_timestamp=_TIME),
        "0000000000030100080000018bcfe56800",
    ),
    "target": (
        ShareGroupTargetAssignmentMemberKey(**_MEMBER),
        "000d000367727000026d31",
        ShareGroupTargetAssignmentMemberValue(topic_partitions=_ASSIGNED),
        "000002000000000000000100000000000000020300000000000000010000",
    ),
    "empty target": (
        ShareGroupTargetAssignmentMemberKey(**_MEMBER),
        "000d000367727000026d31",
        ShareGroupTargetAssignmentMemberValue(topic_partitions=[]),
        "00000100",
    ),
    "assignment": (
        ShareGroupCurrentMemberAssignmentKey(**_MEMBER),
        "000e000367727000026d31",
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=3, previous_member_epoch=2, state=0, assigned_partitions=_ASSIGNED
        ),
        "000000000003000000020002000000000000000100000000000000020300000000000000010000",
    ),
    "initializing": (
        _STATE_KEY,
        "000f0003677270",
        ShareGroupStatePartitionMetadataValue(**{**_NO_STATE, "initializing_topics": _STATE}),
        "0000020000000000000001000000000000000204666f6f03000000000000000100010100",
    ),
    "initialized": (
        _STATE_KEY,
        "000f0003677270",
        ShareGroupStatePartitionMetadataValue(**{**_NO_STATE, "initialized_topics": _STATE}),
        "000001020000000000000001000000000000000204666f6f030000000000000001000100",
    ),
    "deleting": (
        _STATE_KEY,
        "000f0003677270",
        ShareGroupStatePartitionMetadataValue(
            **{**_NO_STATE, "deleting_topics": [ShareStateTopic(**_TOPIC)]}
        ),
        "00000101020000000000000001000000000000000204666f6f0000",
    ),
}


@pytest.mark.parametrize("name", GROUP_RECORDS)
def test_records_of_groups_have_kafkas_bytes(name: str) -> None:
    key, key_hex, value, value_hex = GROUP_RECORDS[name]
    assert encode_key(key).hex() == key_hex
    assert decode_key(bytes.fromhex(key_hex)) == key
    assert encode_value(value).hex() == value_hex
    assert decode_value(key, bytes.fromhex(value_hex)) == value


_FETCHED = ShareFetchPartition(
    partition_index=2,
    acknowledgement_batches=[
        AcknowledgementBatch(first_offset=0, last_offset=3, acknowledge_types=[1])
    ],
)
_ACKNOWLEDGED = ShareAcknowledgePartition(
    partition_index=2,
    acknowledgement_batches=[
        AcknowledgementBatch(first_offset=4, last_offset=6, acknowledge_types=[1, 2, 3])
    ],
)
_TASKS = StreamsHeartbeatTaskIds(subtopology_id="0", partitions=[0, 1])
MESSAGES: dict[str, tuple[Message, int, str]] = {
    "heartbeat": (
        ShareGroupHeartbeatRequest(**_MEMBER, member_epoch=0, subscribed_topic_names=["foo"]),
        1,
        "04677270036d3100000000000204666f6f00",
    ),
    "heartbeat's answer": (
        ShareGroupHeartbeatResponse(
            member_id="m1",
            member_epoch=3,
            heartbeat_interval_ms=5000,
            assignment=ShareHeartbeatAssignment(
                topic_partitions=[ShareHeartbeatTopicPartitions(topic_id=_FOO, partitions=[0, 1])]
            ),
        ),
        1,
        (
            "00000000000000036d310000000300001388010200000000000000010000000000000002030000"
            "000000000001000000"
        ),
    ),
    "heartbeat's answer without an assignment": (
        ShareGroupHeartbeatResponse(member_id="m1", member_epoch=3, heartbeat_interval_ms=5000),
        1,
        "00000000000000036d310000000300001388ff00",
    ),
    "fetch": (
        ShareFetchRequest(
            **_MEMBER,
            share_session_epoch=1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=52428800,
            max_records=500,
            batch_size=500,
            topics=[ShareFetchTopic(topic_id=_FOO, partitions=[_FETCHED])],
            forgotten_topics_data=[],
        ),
        2,
        (
            "04677270036d3100000001000001f40000000103200000000001f4000001f40000020000000000"
            "00000100000000000000020200000002020000000000000000000000000000000302010000000100"
        ),
    ),
    "fetch's answer": (
        ShareFetchResponse(
            acquisition_lock_timeout_ms=30000,
            responses=[
                ShareFetchTopicResponse(
                    topic_id=_FOO,
                    partitions=[
                        ShareFetchPartitionResponse(
                            partition_index=2,
                            error_code=0,
                            acknowledge_error_code=0,
                            current_leader=_NOWHERE,
                            records=b"",
                            acquired_records=[
                                AcquiredRecords(first_offset=4, last_offset=9, delivery_count=1)
                            ],
                        )
                    ],
                )
            ],
            node_endpoints=[],
        ),
        2,
        (
            "000000000000000000753002000000000000000100000000000000020200000002000000000000"
            "00000000000000000001020000000000000004000000000000000900010000000100"
        ),
    ),
    "acknowledge": (
        ShareAcknowledgeRequest(
            **_MEMBER,
            share_session_epoch=2,
            topics=[ShareAcknowledgeTopic(topic_id=_FOO, partitions=[_ACKNOWLEDGED])],
        ),
        2,
        (
            "04677270036d310000000200020000000000000001000000000000000202000000020200000000"
            "0000000400000000000000060401020300000000"
        ),
    ),
    "acknowledge's answer": (
        ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=30000,
            responses=[
                ShareAcknowledgeTopicResponse(
                    topic_id=_FOO,
                    partitions=[
                        ShareAcknowledgePartitionResponse(
                            partition_index=2, error_code=0, current_leader=_NOWHERE
                        )
                    ],
                )
            ],
            node_endpoints=[],
        ),
        2,
        (
            "000000000000000000753002000000000000000100000000000000020200000002000000000000"
            "00000000000000000100"
        ),
    ),
    "streams heartbeat": (
        StreamsGroupHeartbeatRequest(
            **_MEMBER,
            member_epoch=0,
            endpoint_information_epoch=-1,
            rebalance_timeout_ms=300000,
            topology=StreamsHeartbeatTopology(
                epoch=0,
                subtopologies=[
                    StreamsHeartbeatSubtopology(
                        subtopology_id="0",
                        source_topics=["in"],
                        source_topic_regex=[],
                        state_changelog_topics=[],
                        repartition_sink_topics=[],
                        repartition_source_topics=[],
                        copartition_groups=[],
                    )
                ],
            ),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="p1",
            client_tags=[],
        ),
        0,
        (
            "04677270036d3100000000ffffffff0000000493e001000000000202300203696e010101010100"
            "00010101037031ff0100000000"
        ),
    ),
    "streams heartbeat's answer": (
        StreamsGroupHeartbeatResponse(
            member_id="m1",
            member_epoch=3,
            heartbeat_interval_ms=5000,
            status=[],
            active_tasks=[_TASKS],
            standby_tasks=[],
            warmup_tasks=[],
        ),
        0,
        (
            "00000000000000036d310000000300001388000000000000000001020230030000000000000001"
            "000101000000000000"
        ),
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_have_kafkas_bytes(name: str) -> None:
    message, version, body = MESSAGES[name]
    assert message.encode(version).hex() == body
    assert type(message).decode(bytes.fromhex(body), version) == message
