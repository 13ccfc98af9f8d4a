"""Requests and responses of streams groups in the short form."""

import pytest

from coterie.conversation.identities import Identities
from coterie.conversation.names import Names
from coterie.conversation.requests import build_request, request_arguments
from coterie.conversation.responses import response_lines
from coterie.conversation.syntax import TranscriptError, parse_request_line
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsHeartbeatCopartitionGroup,
    StreamsHeartbeatStatus,
    StreamsHeartbeatTaskIds,
    StreamsHeartbeatTopicInfo,
)


def built(text: str) -> StreamsGroupHeartbeatRequest:
    line = parse_request_line(f"c1> StreamsGroupHeartbeat v0 {text}")
    assert line is not None
    request = build_request(line, Names())
    assert isinstance(request, StreamsGroupHeartbeatRequest)
    return request


@pytest.mark.parametrize(
    "text",
    [
        "group=orders member=m1 epoch=2",
        (
            "group=g member=m1 epoch=0 timeout=5m rack=r1 process=p1 topology={0: {sources:"
            " [foo, bar], sinks: [map], changelogs: [store {cleanup.policy: compact}, other],"
            " copartitioned: [[0, 1], [1]]}, 1: {regexes: [f.*], repartitions: [map 4, old 0 3],"
            " copartitioned: [[x0, r1]]}, epoch: 3} active={} standby={} warmup={}"
        ),
        (
            "group=orders member=m1 instance=i1 epoch=2 active={0: [0-2, 5], 1: [1]}"
            ' standby={0: [4]} warmup={} endpoint="h:7001" endpoint_epoch=-1'
            " tags={zone: z1} offsets={0_1: 42} end_offsets={} shutdown=true"
        ),
        "group=orders member=m1 epoch=0 topology={}",
    ],
)
def test_request_is_written_as_it_was_read(text: str) -> None:
    assert request_arguments(built(text), 0, Names()) == text


def test_internal_topics_and_places_of_topics() -> None:
    topology = built(
        "topology={0: {changelogs: [a, b 2, c 2 3 {k: v}], copartitioned: [[1, x2, r3]]}}"
    ).topology
    assert topology is not None
    (subtopology,) = topology.subtopologies
    first, second, third = subtopology.state_changelog_topics
    assert first == StreamsHeartbeatTopicInfo(
        name="a", partitions=0, replication_factor=-1, topic_configs=[]
    )
    assert (second.partitions, second.replication_factor) == (2, -1)
    assert (third.partitions, third.replication_factor, third.topic_configs[0].value) == (2, 3, "v")
    assert subtopology.copartition_groups == [
        StreamsHeartbeatCopartitionGroup(
            source_topics=[1], source_topic_regex=[2], repartition_source_topics=[3]
        )
    ]


@pytest.mark.parametrize(
    "text",
    ["topology={0: {sauces: [foo]}}", "endpoint=h", "endpoint=h:x", "active={0: [a]}", "mumber=m"],
)
def test_what_no_request_can_say_is_refused(text: str) -> None:
    with pytest.raises(TranscriptError):
        built(text)


def shown(response: StreamsGroupHeartbeatResponse) -> str:
    (line,) = response_lines("c1", 0, response, Names())
    return line.removeprefix("c1< StreamsGroupHeartbeat v0 ")


def test_lists_that_are_null_without_reason_are_shown() -> None:
    tasks = [StreamsHeartbeatTaskIds(subtopology_id="0", partitions=[2, 0, 1])]
    response = StreamsGroupHeartbeatResponse(
        member_id="m1", member_epoch=2, heartbeat_interval_ms=5000, status=[], active_tasks=tasks
    )
    assert shown(response) == (
        "member=m1 epoch=2 interval=5s active={0: [0-2]} standby=null warmup=null"
    )
    response.standby_tasks, response.warmup_tasks = [], []
    assert shown(response) == "member=m1 epoch=2 interval=5s active={0: [0-2]}"
    response.active_tasks, response.status = None, None
    assert shown(response) == ("member=m1 epoch=2 interval=5s status=null standby={} warmup={}")


def test_refusal_and_status() -> None:
    refusal = StreamsGroupHeartbeatResponse(
        error_code=42, error_message="no", member_id="", status=[]
    )
    assert shown(refusal) == 'error=INVALID_REQUEST "no"'
    told = StreamsHeartbeatStatus(status_code=9, status_detail="odd")
    response = StreamsGroupHeartbeatResponse(member_id="m", status=[told])
    assert shown(response) == 'member=m epoch=0 interval=0 status=[9 "odd"]'


def test_the_endpoint_of_a_member_is_no_place_of_a_broker() -> None:
    """[recording/ids] A replay sends it as it was."""
    identities = Identities()
    assert identities.pair("host", "h", "127.0.0.1")
    assert identities.pair("port", 7001, 9092)
    request = built('group=orders member=m1 epoch=0 endpoint="h:7001"')
    identities.substitute(request)
    assert request == built('group=orders member=m1 epoch=0 endpoint="h:7001"')
