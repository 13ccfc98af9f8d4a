"""The lines of a conversation have the notation of the transcripts."""

from coterie.client_check.conversation import Conversation
from coterie.client_check.lines import conversation_lines
from coterie.conversation.payloads import assignment_bytes, subscription_bytes
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from coterie.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.protocol.messages.sync_group import SyncGroupResponse as Synced
from coterie.protocol.records import Record, encode_records

ID = "consumer-1-0442027a-af1f-495b-bf86-589578df43e4"


def test_lines_are_those_of_transcripts_with_short_names() -> None:
    talk = Conversation(lambda: 0.0)
    metadata = subscription_bytes("sales owned none")
    join = JoinGroupRequest(
        group_id="check",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    exchange = talk.request("client", 2, 1, ApiKey.JOIN_GROUP, 9, "consumer-1", join)
    joined = JoinGroupResponse(
        error_code=0,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=ID,
        member_id=ID,
        members=[JoinGroupResponseMember(member_id=ID, metadata=metadata)],
    )
    talk.answered(exchange, joined)
    mine = assignment_bytes("sales-0")
    sync = SyncGroupRequest(
        group_id="check",
        generation_id=1,
        member_id=ID,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=ID, assignment=mine)],
    )
    exchange = talk.request("client", 2, 1, ApiKey.SYNC_GROUP, 5, "consumer-1", sync)
    exchange.script = "never answered"
    talk.answered(exchange, Synced(error_code=27, assignment=b""))
    fetch = OffsetFetchRequest(group_id="check", topics=None)
    exchange = talk.request("client", 2, 1, ApiKey.OFFSET_FETCH, 7, "consumer-1", fetch)
    talk.answered(exchange, OffsetFetchResponse(topics=[], error_code=16))
    assert [line[9:] for line in conversation_lines(talk, {})] == [
        (
            'client#2> JoinGroup v9 group=check member="" session=45s rebalance=1m'
            " protocols=[range: sales owned none]"
        ),
        (
            "client#2< JoinGroup v9 generation=1 protocol=consumer/range leader=client"
            " member=client members=[client: sales owned none]"
        ),
        (
            "client#2> SyncGroup v5 group=check member=client generation=1 protocol=range"
            " assignment={client: sales-0}   # never answered"
        ),
        "client#2< SyncGroup v5 error=REBALANCE_IN_PROGRESS",
        "client#2> OffsetFetch v7 group=check",
        "client#2< OffsetFetch v7 error=NOT_COORDINATOR",
    ]


def test_heartbeats_of_the_consumer_protocol_that_repeat_themselves_are_counted() -> None:
    talk = Conversation(lambda: 0.0)
    topic_id = bytes(range(16))
    partitions = [HeartbeatTopicPartitions(topic_id=topic_id, partitions=[0, 1])]
    given = HeartbeatAssignment(topic_partitions=partitions)
    for epoch, assignment in ((0, given), (2, None), (2, None), (2, None), (2, given)):
        beat = ConsumerGroupHeartbeatRequest(group_id="check", member_id=ID, member_epoch=epoch)
        api = ApiKey.CONSUMER_GROUP_HEARTBEAT
        exchange = talk.request("client", 2, 1, api, 1, "consumer-1", beat)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=ID, member_epoch=2, heartbeat_interval_ms=1_000, assignment=assignment
        )
        talk.answered(exchange, answer)
    assert [line[9:] for line in conversation_lines(talk, {topic_id: "sales"})] == [
        "client#2> ConsumerGroupHeartbeat v1 group=check member=client epoch=0",
        (
            "client#2< ConsumerGroupHeartbeat v1 member=client epoch=2 interval=1s"
            " assigned={sales: [0-1]}"
        ),
        "client#2> ConsumerGroupHeartbeat v1 group=check member=client epoch=2",
        "client#2< ConsumerGroupHeartbeat v1 member=client epoch=2 interval=1s",
        "(2 more of the same, answered without records or errors)",
        "client#2> ConsumerGroupHeartbeat v1 group=check member=client epoch=2",
        (
            "client#2< ConsumerGroupHeartbeat v1 member=client epoch=2 interval=1s"
            " assigned={sales: [0-1]}"
        ),
    ]


def test_partitions_come_before_what_is_said_of_them() -> None:
    talk = Conversation(lambda: 0.0)
    topic_id = bytes(range(16))
    partition = FetchRequestPartition(partition=0, fetch_offset=3, partition_max_bytes=1000)
    fetch = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        session_epoch=7,
        topics=[FetchRequestTopic(topic_id=topic_id, partitions=[partition])],
    )
    exchange = talk.request("client", 1, 1, ApiKey.FETCH, 13, "consumer-1", fetch)
    records = encode_records([Record(0, 0, None, b"x", ())] * 2)
    found = [
        FetchResponsePartition(
            partition_index=0, error_code=0, high_watermark=5, last_stable_offset=5, records=records
        ),
        FetchResponsePartition(partition_index=1, error_code=6, high_watermark=-1, records=None),
    ]
    topic = FetchResponseTopic(topic_id=topic_id, partitions=found)
    talk.answered(exchange, FetchResponse(throttle_time_ms=100, responses=[topic]))
    metadata = MetadataRequest(topics=None)
    exchange = talk.request("client", 1, 1, ApiKey.METADATA, 9, "consumer-1", metadata)
    broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)
    unknown = MetadataResponseTopic(name="gone", error_code=3, partitions=[])
    talk.answered(exchange, MetadataResponse(brokers=[broker], topics=[unknown]))
    assert [line[9:] for line in conversation_lines(talk, {topic_id: "sales"})] == [
        "client#1> Fetch v13 max_wait_ms=500 topics={sales-0: {fetch_offset: 3}}",
        (
            "client#1< Fetch v13 throttle_time_ms=100 responses={sales-0: {high_watermark: 5,"
            " records: {batches: 1, records: 2}},"
            " sales-1: {error: NOT_LEADER_OR_FOLLOWER, high_watermark: -1, records: null}}"
        ),
        "client#1> Metadata v9 topics=null",
        (
            "client#1< Metadata v9 brokers=[{node_id: 1, host: 127.0.0.1, port: 9092}]"
            " topics={gone: UNKNOWN_TOPIC_OR_PARTITION}"
        ),
    ]
