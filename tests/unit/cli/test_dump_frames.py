"""Frames taken apart: every byte explained, every field named, the first wrong byte found."""

import re

import pytest

from coterie.cli.dump.frames import ResponseTo, decode_frame, frame_pieces, split_frames
from coterie.cli.dump.message_fields import MessageFields, Piece
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import DECODE_ERRORS
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.api_versions import ApiVersionsResponse
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.schema import untagged
from coterie.protocol.wire import Message
from tests.codecs import slow
from tests.codecs.catalogue import MESSAGES, pair_id, versions_of
from tests.codecs.instances import RandomValues, build, project

HEARTBEAT = encode_request(
    HeartbeatRequest(group_id="orders", generation_id=1, member_id="c1-1"), 4, 7, "c1"
)


def texts_of(pieces: list[Piece]) -> list[str]:
    return ["  " * piece.depth + piece.text for piece in pieces]


def assert_no_gaps(pieces: list[Piece], end: int) -> None:
    position = 0
    for piece in pieces:
        assert piece.start == position, piece
        position = piece.end
    assert position == end


@pytest.mark.parametrize("unknown_tags", [False, True], ids=["plain", "unknown-tags"])
@pytest.mark.parametrize("cls", MESSAGES, ids=pair_id)
def test_every_byte_of_every_message_is_explained(cls: type[Message], unknown_tags: bool) -> None:
    for version in versions_of(cls):
        message = project(build(cls, RandomValues((cls.__name__, version))), version)
        data = slow.encode(message, version, unknown_tags=unknown_tags)
        fields = MessageFields(data, 0, len(data))
        fields.add_message(cls, version)
        assert_no_gaps(fields.pieces, len(data))
        texts = [piece.text for piece in fields.pieces if piece.depth == 0]
        for field in untagged(cls, version):
            value = getattr(message, field.name)
            (text,) = (t for t in texts if t.split(" ")[0].rstrip(":") == field.name)
            if isinstance(value, list):
                assert text.startswith(f"{field.name}: {len(value)} element")
            elif value is None:
                assert text.startswith(f"{field.name} null")
            elif isinstance(value, int) and not isinstance(value, bool):
                assert text.startswith(f"{field.name} {value}")


@pytest.mark.parametrize("cls", [HeartbeatRequest, JoinGroupRequest], ids=pair_id)
def test_truncated_message_is_explained_up_to_the_cut(cls: type[Message]) -> None:
    for version in versions_of(cls):
        message = project(build(cls, RandomValues("cut")), version)
        data = slow.encode(message, version)
        for end in range(len(data)):
            fields = MessageFields(data, 0, end)
            with pytest.raises(DECODE_ERRORS):
                fields.add_message(cls, version)
            last = fields.pieces[-1].end if fields.pieces else 0
            assert last <= end
            assert_no_gaps(fields.pieces, last)


def test_request_is_explained_field_by_field() -> None:
    pieces, problem = frame_pieces(HEARTBEAT, None)
    assert problem == ""
    assert texts_of(pieces) == [
        "size 31",
        "api_key 12 Heartbeat",
        "api_version 4",
        "correlation_id 7",
        'client_id "c1", no tags',
        'group_id "orders"',
        "generation_id 1",
        'member_id "c1-1"',
        "group_instance_id null, no tags",
    ]
    assert_no_gaps(pieces, len(HEARTBEAT))


def test_length_prefix_is_optional() -> None:
    pieces, problem = frame_pieces(HEARTBEAT[4:], None)
    assert problem == ""
    assert texts_of(pieces)[0] == "api_key 12 Heartbeat"
    assert_no_gaps(pieces, len(HEARTBEAT) - 4)


def test_error_codes_of_responses_have_names() -> None:
    frame = HeartbeatResponse.framer(4)(HeartbeatResponse(error_code=27), 7)
    pieces, problem = frame_pieces(frame, ResponseTo(ApiKey.HEARTBEAT, 4))
    assert problem == ""
    assert texts_of(pieces)[1:] == [
        "correlation_id 7, no tags",
        "throttle_time_ms 0",
        "error_code 27 REBALANCE_IN_PROGRESS, no tags",
    ]


def test_api_versions_response_has_the_old_header() -> None:
    frame = ApiVersionsResponse.framer(4)(ApiVersionsResponse(error_code=0, api_keys=[]), 1)
    pieces, problem = frame_pieces(frame, ResponseTo(ApiKey.API_VERSIONS, 4))
    assert problem == ""
    assert texts_of(pieces)[1] == "correlation_id 1"


def test_embedded_consumer_protocol_is_explained_and_other_bytes_are_not() -> None:
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=["a"]), 1)
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1,
        member_id="",
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name="range", metadata=subscription + b"more"),
            JoinGroupRequestProtocol(name="other", metadata=b"\xff\xff\xff"),
        ],
    )
    frame = encode_request(request, 4, 1, None)
    pieces, problem = frame_pieces(frame, None)
    assert problem == ""
    assert_no_gaps(pieces, len(frame))
    assert texts_of(pieces)[-11:] == [
        "protocols: 2 elements",
        '  [0] name "range"',
        "  metadata 21 bytes, ConsumerProtocolSubscription",
        "    version 1",
        "    topics: 1 element",
        '      [0] "a"',
        "    user_data null",
        "    owned_partitions: 0 elements",
        "    4 bytes of a later version",
        '  [1] name "other"',
        "  metadata 3 bytes",
    ]


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (b"\x03\xe7\0\1", "the api key 999 is unknown"),
        (b"\0\x0c\0\x09", "Heartbeat is known in versions 0 to 4, not 9"),
        (HEARTBEAT[:-3], "5 bytes are announced|4 bytes are announced"),
        (HEARTBEAT[4:] + b"\0", "1 bytes are left over"),
    ],
    ids=["unknown-api", "unknown-version", "cut", "too-long"],
)
def test_problem_follows_the_valid_pieces(frame: bytes, problem: str) -> None:
    pieces, found = frame_pieces(frame, None)
    assert pieces
    assert re.search(problem, found)


def test_consecutive_frames_are_split() -> None:
    two = HEARTBEAT + HEARTBEAT
    assert list(split_frames(two)) == [(0, len(HEARTBEAT)), (len(HEARTBEAT), len(two))]
    assert list(split_frames(HEARTBEAT[4:])) == [(0, len(HEARTBEAT) - 4)]


def test_decoded_frame_has_header_and_message() -> None:
    assert decode_frame(HEARTBEAT, None) == {
        "api": "Heartbeat",
        "version": 4,
        "correlation_id": 7,
        "client_id": "c1",
        "message": {
            "group_id": "orders",
            "generation_id": 1,
            "member_id": "c1-1",
            "group_instance_id": None,
        },
    }
