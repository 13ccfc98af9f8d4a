"""Requests of consumer groups in the short form, and the names of a run in them."""

import pytest

from coterie.conversation.consumer_group_requests import indexes_text, read_indexes
from coterie.conversation.learnt_names import LearntNames
from coterie.conversation.names import Names
from coterie.conversation.requests import build_request, request_arguments
from coterie.conversation.responses import response_lines
from coterie.conversation.syntax import TranscriptError, parse_request_line
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ([], "[]"),
        ([4], "[4]"),
        ([0, 1], "[0-1]"),
        ([0, 1, 2, 5, 7, 8], "[0-2, 5, 7-8]"),
        ([3, 2, 2], "[3, 2, 2]"),
    ],
)
def test_partitions_are_ranges_in_their_order(indexes: list[int], text: str) -> None:
    assert indexes_text(indexes) == text
    assert read_indexes(text) == indexes


@pytest.mark.parametrize("text", ["[a]", "[3-1]", "[-1]", "[0-9999999]", "[1-]"])
def test_what_is_no_list_of_partitions_is_refused(text: str) -> None:
    with pytest.raises(TranscriptError):
        read_indexes(text)


def built(text: str, names: Names) -> ConsumerGroupHeartbeatRequest:
    line = parse_request_line(f"c1> ConsumerGroupHeartbeat v1 {text}")
    assert line is not None
    request = build_request(line, names)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    return request


def test_what_is_left_out_is_kept_by_the_coordinator() -> None:
    request = built("member=m1 epoch=2", Names())
    assert request == ConsumerGroupHeartbeatRequest(
        group_id="orders", member_id="m1", member_epoch=2
    )


@pytest.mark.parametrize(
    "text",
    [
        "group=g member=m1 epoch=0 timeout=5m topics=[foo, bar] owned={}",
        'group=orders member="" instance=i1 epoch=-2',
        'group=orders member=m1 epoch=3 topics=[] regex="(foo|bar)" assignor=range rack=r1',
        "group=orders member=m1 epoch=3 owned={foo: [0-2, 5], bar: [1]}",
    ],
)
def test_request_is_written_as_it_was_read(text: str) -> None:
    names = Names()
    assert request_arguments(built(text, names), 1, names) == text


def test_deleted_topic_has_a_name_of_its_own() -> None:
    names = Names()
    old = names.topic_id("foo")
    names.forget_topic("foo")
    request = built("member=m1 epoch=2 owned={deleted-foo: [0], foo: [1]}", names)
    assert request.topic_partitions is not None
    assert [each.topic_id for each in request.topic_partitions] == [old, names.topic_id("foo")]


def test_assignment_of_an_answer_is_sorted() -> None:
    names = Names()
    topics = [
        HeartbeatTopicPartitions(topic_id=names.topic_id(name), partitions=[2, 0, 1])
        for name in ("foo", "bar")
    ]
    answer = ConsumerGroupHeartbeatResponse(
        member_id="m1",
        member_epoch=2,
        heartbeat_interval_ms=5_000,
        assignment=HeartbeatAssignment(topic_partitions=topics),
    )
    assert response_lines("c1", 1, answer, names) == [
        (
            "c1< ConsumerGroupHeartbeat v1 member=m1 epoch=2 interval=5s "
            "assigned={bar: [0-2], foo: [0-2]}"
        )
    ]


def test_regular_expression_of_a_run_matches_its_topics_only() -> None:
    names = LearntNames("run7-")
    request = built("member=m1 epoch=0 timeout=5m regex=foo.* owned={}", names)
    assert request.subscribed_topic_regex == "run7-foo.*"
    assert built('member=m1 epoch=2 regex=""', names).subscribed_topic_regex == ""


def test_fetch_names_the_member_that_asks() -> None:
    names = Names()
    line = parse_request_line("c1> OffsetFetch v9 group=g member=m1 epoch=3")
    assert line is not None
    request = build_request(line, names)
    assert isinstance(request, OffsetFetchRequest)
    (group,) = request.groups
    assert (group.member_id, group.member_epoch, group.topics) == ("m1", 3, None)
    text = "groups={g: all member m1 epoch 3}"
    assert request_arguments(request, 9, names) == text
    again = parse_request_line(f"c1> OffsetFetch v9 {text}")
    assert again is not None
    assert build_request(again, names) == request
