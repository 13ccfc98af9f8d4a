"""Frames and headers: encoding, decoding, and the refusal of malformed ones.

Rules: [framing/frame-length], [framing/request-header].
"""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.api_header import RequestHeader as PeerHeader

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.frames import (
    MAX_FRAME_BYTES,
    FrameBuffer,
    RequestHeader,
    decode_request_header,
    decode_response,
    decode_response_header,
    encode_request,
)
from coterie.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

_SETTINGS = settings(max_examples=60, deadline=None, derandomize=True)
_HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")


@_SETTINGS
@given(
    st.integers(0, 4),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text(max_size=40) | st.just("é" * 200),
)
def test_a_request_is_decoded_as_it_was_encoded(
    version: int, correlation_id: int, client_id: str | None
) -> None:
    frame = encode_request(_HEARTBEAT, version, correlation_id, client_id)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    flexible = HeartbeatRequest.has_flexible_header(version)
    header, position = decode_request_header(frame, 4, len(frame), flexible=flexible)
    assert header == RequestHeader(12, version, correlation_id, client_id)
    assert HeartbeatRequest.decode(frame, version, position).group_id == "g"


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("client_id", [None, "", "consumer-é"])
def test_headers_equal_those_of_kafka_python(version: int, client_id: str | None) -> None:
    frame = encode_request(_HEARTBEAT, version, 7, client_id)
    theirs = PeerHeader(
        request_api_key=12, request_api_version=version, correlation_id=7, client_id=client_id
    )
    assert frame[4:] == theirs.encode(flexible=version >= 4) + _HEARTBEAT.encode(version)


def test_a_request_has_the_documented_bytes() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    assert encode_request(request, 0, 258, "me").hex(" ", 1) == (
        "00 00 00 16 00 0c 00 00 00 00 01 02 00 02 6d 65 00 01 67 00 00 00 03 00 01 6d"
    )
    assert encode_request(request, 4, 258, None).hex(" ", 1) == (
        "00 00 00 15 00 0c 00 04 00 00 01 02 ff ff 00 02 67 00 00 00 03 02 6d 00 00"
    )


def test_tags_of_a_header_are_skipped() -> None:
    frame = bytes.fromhex("000c 0004 00000001 0001 78 02 00 01 aa 63 00".replace(" ", ""))
    header, position = decode_request_header(frame, 0, len(frame), flexible=True)
    assert header.client_id == "x"
    assert position == len(frame)


@pytest.mark.parametrize("flexible", [False, True])
def test_a_truncated_header_is_malformed(flexible: bool) -> None:
    frame = bytes.fromhex("000c000400000001000378797a") + (b"\x01\x05\x01\xaa" if flexible else b"")
    for end in range(len(frame)):
        with pytest.raises(MalformedFrame):
            decode_request_header(frame[:end], 0, end, flexible=flexible)
        with pytest.raises(MalformedFrame):  # also if the bytes of another frame follow
            decode_request_header(frame, 0, end, flexible=flexible)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("000c000400000001fffe00", "client_id claims -2 bytes"),
        ("000c0004000000017fff00", "client_id claims 32767 bytes where 1 are left"),
        ("000c0004000000010001ff00", "invalid start byte"),
        ("000c000400000001ffff41", "65 tagged fields"),
        ("000c000400000001ffffffffffff0f", "4294967295 tagged fields"),
        ("000c000400000001ffff0100ffffffff0f", "a tagged field ends"),
        ("000c000400000001ffff8000", None),  # a count of 0 in two bytes
        ("000c000400000001ffff80", "index out of range"),
    ],
)
def test_the_refusal_of_a_damaged_header_names_the_reason(text: str, reason: str | None) -> None:
    frame = bytes.fromhex(text)
    if reason is None:
        assert decode_request_header(frame, 0, len(frame), flexible=True)[1] == len(frame)
        return
    with pytest.raises(MalformedFrame, match=reason):
        decode_request_header(frame, 0, len(frame), flexible=True)


def test_the_tags_of_a_header_end_with_its_frame() -> None:
    two = bytes.fromhex("000c000400000001ffff800000")
    with pytest.raises(MalformedFrame, match="tags end at byte 12, the frame at 11"):
        decode_request_header(two, 0, 11, flexible=True)


def test_only_api_versions_responses_have_no_tags_in_the_header() -> None:
    frame = HeartbeatResponse.framer(4)(HeartbeatResponse(error_code=27), 9)
    assert frame[4:9].hex() == "0000000900"
    assert decode_response(HeartbeatResponse, frame[4:], 4) == (9, HeartbeatResponse(error_code=27))
    answer = ApiVersionsResponse(error_code=35, api_keys=[])
    for version in range(5):
        frame = ApiVersionsResponse.framer(version)(answer, 9)
        assert frame[4:10].hex() == "000000090023", "the error code follows the correlation id"
        assert decode_response(ApiVersionsResponse, frame[4:], version) == (9, answer)


@pytest.mark.parametrize("text", ["", "000000", "00000009", "00000009800000", "0000000901"])
def test_a_damaged_response_is_malformed(text: str) -> None:
    with pytest.raises(MalformedFrame):
        decode_response(HeartbeatResponse, bytes.fromhex(text), 4)


def test_a_response_header_without_tags_is_four_bytes() -> None:
    assert decode_response_header(b"....\x00\x00\x00\x07", 4, 8, flexible=False) == (7, 8)


@_SETTINGS
@given(st.lists(st.binary(max_size=20), max_size=8), st.data())
def test_frames_do_not_depend_on_how_the_stream_is_split(
    frames: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    buffer, seen, position = FrameBuffer(), [], 0
    while position < len(stream):
        size = data.draw(st.integers(1, len(stream) - position))
        buffer.append(stream[position : position + size])
        position += size
        while (frame := buffer.next_frame()) is not None:
            seen.append(frame)
    assert seen == frames
    assert buffer.next_frame() is None


@pytest.mark.parametrize("length", ["ffffffff", "80000000", "7fffffff", "06400001", "47455420"])
def test_a_frame_is_refused_as_soon_as_its_length_is_known(length: str) -> None:
    buffer = FrameBuffer()
    buffer.append(b"\x00\x00\x00\x01x" + bytes.fromhex(length[:6]))
    assert buffer.next_frame() == b"x"
    assert buffer.next_frame() is None
    buffer.append(bytes.fromhex(length[6:]))
    for _ in range(2):
        with pytest.raises(MalformedFrame, match=f"at most {MAX_FRAME_BYTES}"):
            buffer.next_frame()


def test_the_maximum_size_is_an_argument() -> None:
    buffer = FrameBuffer(max_size=3)
    buffer.append(b"\x00\x00\x00\x03abc\x00\x00\x00\x04")
    assert buffer.next_frame() == b"abc"
    with pytest.raises(MalformedFrame, match="claims 4 bytes, at most 3"):
        buffer.next_frame()


def test_a_claimed_length_allocates_nothing() -> None:
    tracemalloc.start()
    try:
        buffer = FrameBuffer()
        buffer.append(b"\x06\x40\x00\x00" + b"x" * 100)
        assert buffer.next_frame() is None
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_api_versions_requests_have_the_flexible_header() -> None:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    assert encode_request(request, 3, 1, None)[12:15].hex() == "ffff00"
    assert encode_request(request, 2, 1, None)[12:].hex() == "ffff"
