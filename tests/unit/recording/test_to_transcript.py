"""Requests of a recording become commands of a transcript that holds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.conformance.core_driver import CoreDriver, differences
from coterie.conformance.harness import GROUP_APIS
from coterie.conformance.transcript import all_paths, parse
from coterie.conformance.transcript import read as read_transcript
from coterie.conversation.names import Names
from coterie.conversation.requests import build_request, request_arguments
from coterie.conversation.syntax import TranscriptError, parse_request_line
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.incremental_alter_configs import (
    DELETE,
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)
from coterie.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.wire import Message
from coterie.recording.conversation import conversation_of
from coterie.recording.files import read
from coterie.recording.recorder import Observation
from coterie.recording.to_transcript import CannotWrite, Written, to_transcript
from coterie.server.config.keys import GROUP_RESOURCE
from tests.unit.recording.written import opened, request, response, write

RECORDED_ID = "c1-0442027a-af1f-495b-bf86-589578df43e4"


def group_requests() -> Iterator[tuple[str, int, Message, Names]]:
    """Return all requests about groups in the transcripts of the package."""
    for path in all_paths():
        names = Names()
        for block in read_transcript(path).blocks:
            for command in block.commands:
                line = parse_request_line(command.text)
                if line is None:
                    continue
                try:
                    message = build_request(line, names)
                except TranscriptError:
                    continue
                if type(message) in GROUP_APIS:
                    yield line.api, line.version, message, names


def test_every_request_of_the_transcripts_can_be_written_again() -> None:
    count = 0
    for api, version, message, names in group_requests():
        text = request_arguments(message, version, names)
        line = parse_request_line(f"c1> {api} v{version} {text}".rstrip())
        assert line is not None
        assert build_request(line, names) == message, text
        count += 1
    assert count > 500


def join(member: str, at_ms: int, number: int) -> Observation:
    message = JoinGroupRequest(
        group_id="orders",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0mine")],
    )
    return request(message, 5, number, at_ms=at_ms)


def joined(number: int, at_ms: int, **fields: Any) -> Observation:
    values: dict[str, Any] = {"protocol_name": "", "leader": "", "members": [], **fields}
    message = JoinGroupResponse(member_id=RECORDED_ID, **values)
    observed = response(ApiKey.JOIN_GROUP, message, 5, number)
    return observed._replace(at_ms=observed.at_ms + at_ms)


def written(path: Path, *observed: Observation, **settings: str) -> Written:
    recording = read(write(path / "r", [opened(), *observed]))
    conversation = conversation_of(recording.entries)
    return to_transcript(recording.header, conversation, conversation.exchanges, settings)


def commands(text: str) -> list[str]:
    blocks = parse(text, Path("r")).blocks
    return [command.text for block in blocks for command in block.commands]


def story(*, heartbeat_error: int) -> list[Observation]:
    alone = {"generation_id": 1, "protocol_name": "range", "leader": RECORDED_ID}
    heartbeat = HeartbeatRequest(group_id="orders", generation_id=7, member_id=RECORDED_ID)
    answer = HeartbeatResponse(error_code=heartbeat_error)
    return [
        join("", 0, 1),
        joined(1, 2, error_code=79),
        join(RECORDED_ID, 4, 2),
        joined(2, 1504, error_code=0, **alone),
        request(heartbeat, 3, 3, at_ms=1600),
        response(ApiKey.HEARTBEAT, answer, 3, 3)._replace(at_ms=1_700_000_001_601),
    ]


def test_ids_and_pauses_are_those_of_the_core(tmp_path: Path) -> None:
    """[recording/transcripts]"""
    found = written(tmp_path, *story(heartbeat_error=22))
    rest = "session=10s rebalance=1m protocols=[range: 0x00006d696e65]"
    assert commands(found.text) == [
        f'c1> JoinGroup v5 group=orders member="" {rest}',
        f"c1> JoinGroup v5 group=orders member=c1-1 {rest}",
        # The recorded broker had a shorter initial delay.
        "tick 3s",
        "c1> Heartbeat v3 group=orders member=c1-1 generation=7",
    ]  # fmt: skip
    # The recorded response has no members; everything else is the same.
    assert (found.requests, found.differing) == (3, 1)
    transcript = parse(found.text, Path("r"))
    assert not differences(transcript, CoreDriver().run(transcript))


def test_settings_are_commands(tmp_path: Path) -> None:
    name = "group.initial.rebalance.delay.ms"
    found = written(tmp_path, *story(heartbeat_error=22), **{name: "1000"})
    assert commands(found.text)[0] == f"config {name}=1000"
    assert "tick 1600ms" in commands(found.text)


def joins_consumer_group(number: int, *, interval_ms: int) -> list[Observation]:
    beat = ConsumerGroupHeartbeatRequest(
        group_id="orders",
        member_id="m1",
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=["sales"],
        topic_partitions=[],
    )
    answer = ConsumerGroupHeartbeatResponse(
        member_id="m1",
        member_epoch=2,
        heartbeat_interval_ms=interval_ms,
        assignment=HeartbeatAssignment(topic_partitions=[]),
    )
    api = ApiKey.CONSUMER_GROUP_HEARTBEAT
    return [request(beat, 1, number), response(api, answer, 1, number)]


def alters_interval(number: int, operation: int, value: str | None) -> list[Observation]:
    name = "consumer.heartbeat.interval.ms"
    change = IncrementalAlterConfigsRequestConfig(
        name=name, config_operation=operation, value=value
    )
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=GROUP_RESOURCE, resource_name="orders", configs=[change]
    )
    alters = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    result = IncrementalAlterConfigsResponseResource(
        error_code=0, error_message=None, resource_type=GROUP_RESOURCE, resource_name="orders"
    )
    answer = IncrementalAlterConfigsResponse(responses=[result])
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    return [request(alters, 1, number), response(api, answer, 1, number)]


def test_settings_of_consumer_groups_are_commands(tmp_path: Path) -> None:
    """[recording/transcripts] Those of the broker come first, those of a group where they were."""
    settings = {
        "group.consumer.heartbeat.interval.ms": "2000",
        "group.consumer.assignors": "range",
        "group.consumer.min.heartbeat.interval.ms": "1000",
    }
    found = written(
        tmp_path,
        *joins_consumer_group(1, interval_ms=2_000),
        *alters_interval(2, SET, "3000"),
        *joins_consumer_group(3, interval_ms=3_000),
        *alters_interval(4, DELETE, None),
        *joins_consumer_group(5, interval_ms=2_000),
        **settings,
    )
    assert [line for line in commands(found.text) if line.startswith("config")] == [
        "config group.consumer.heartbeat.interval.ms=2000 group.consumer.assignors=range",
        "config group.consumer.heartbeat.interval.ms:orders=3000",
        "config group.consumer.heartbeat.interval.ms:orders=2000",
    ]
    assert (found.requests, found.differing) == (3, 0)


def test_other_answer_is_a_comment(tmp_path: Path) -> None:
    found = written(tmp_path, *story(heartbeat_error=25))
    assert "# Recorded: c1< Heartbeat v3 error=UNKNOWN_MEMBER_ID\nc1> Heartbeat" in found.text
    assert found.differing == 2


def test_request_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    strange = HeartbeatRequest(group_id='a"b', generation_id=1, member_id="m")
    found = written(tmp_path, join("", 0, 1), request(strange, 3, 2, at_ms=5))
    assert found.requests == 1
    ((reason, count),) = found.left_out.items()
    assert reason.startswith("Heartbeat v3: ")
    assert count == 1


def test_stretch_without_groups_has_no_transcript(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="no request about a group"):
        written(tmp_path)


def test_heartbeats_that_change_nothing_are_left_out(tmp_path: Path) -> None:
    """[recording/transcripts] The session still ends when it did."""
    beats = []
    for number, at_s in enumerate((3, 6, 9, 12, 15, 18), 3):
        message = HeartbeatRequest(group_id="orders", generation_id=1, member_id=RECORDED_ID)
        answer = response(ApiKey.HEARTBEAT, HeartbeatResponse(error_code=0), 4, number)
        beats += [
            request(message, 4, number, at_ms=at_s * 1000),
            answer._replace(at_ms=answer.at_ms + at_s * 1000),
        ]
    made = written(
        tmp_path,
        join("", 0, 1),
        joined(1, 1, error_code=ErrorCode.MEMBER_ID_REQUIRED),
        join(RECORDED_ID, 2, 2),
        joined(2, 3, error_code=0, generation_id=1, protocol_name="range", leader=RECORDED_ID),
        *beats,
        join(RECORDED_ID, 40_000, 20),
        **{"group.initial.rebalance.delay.ms": "0"},
    )
    sent = [line for line in commands(made.text) if "Heartbeat" in line or "tick" in line]
    beat = "c1> Heartbeat v4 group=orders member=c1-1 generation=1"
    assert sent == ["tick 9s", beat, "tick 9s", beat, "tick 22s"]
    assert "\n00:28.000 orders removed c1-1" in made.text
    assert made.left_out == {
        "Heartbeat: answered without an error, as the next one of its member": 4
    }


def test_topics_of_consumer_groups_are_created(tmp_path: Path) -> None:
    """[recording/transcripts] The coordinator assigns, so it needs the numbers of partitions."""
    sales = MetadataResponseTopic(
        error_code=0,
        name="sales",
        topic_id=bytes(range(16)),
        partitions=[
            MetadataResponsePartition(
                error_code=0, partition_index=index, leader_id=0, replica_nodes=[0], isr_nodes=[0]
            )
            for index in range(2)
        ],
    )
    metadata = MetadataResponse(brokers=[], controller_id=0, topics=[sales])
    joins = ConsumerGroupHeartbeatRequest(
        group_id="orders",
        member_id="m1",
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=["sales"],
        topic_partitions=[],
    )
    owned = HeartbeatTopicPartitions(topic_id=sales.topic_id, partitions=[0, 1])
    reports = ConsumerGroupHeartbeatRequest(
        group_id="orders", member_id="m1", member_epoch=2, topic_partitions=[owned]
    )
    answers = [
        ConsumerGroupHeartbeatResponse(
            member_id="m1", member_epoch=2, heartbeat_interval_ms=5_000, assignment=assignment
        )
        for assignment in (HeartbeatAssignment(topic_partitions=[owned]), None)
    ]
    found = written(
        tmp_path,
        request(MetadataRequest(topics=None), 12, 1),
        response(ApiKey.METADATA, metadata, 12, 1),
        request(joins, 1, 2),
        response(ApiKey.CONSUMER_GROUP_HEARTBEAT, answers[0], 1, 2),
        request(reports, 1, 3),
        response(ApiKey.CONSUMER_GROUP_HEARTBEAT, answers[1], 1, 3),
    )
    heartbeat = "c1> ConsumerGroupHeartbeat v1 group=orders member=m1"
    assert commands(found.text) == [
        "create-topic sales 2",
        f"{heartbeat} epoch=0 timeout=5m topics=[sales] owned={{}}",
        f"{heartbeat} epoch=2 owned={{sales: [0-1]}}",
    ]
    assert (found.requests, found.differing) == (2, 0)
