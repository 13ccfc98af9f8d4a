"""`coterie dump codec` and `coterie dump frame`."""

import json

import pytest

from coterie.cli.dump.frames import decode_frame
from coterie.protocol.compile import source_of
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.fetch import FetchRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.cli.command import run
from tests.unit.cli.test_dump_frames import HEARTBEAT as REQUEST

RESPONSE = HeartbeatResponse.framer(4)(HeartbeatResponse(error_code=25), 7)


@pytest.mark.parametrize(
    ("arguments", "source"),
    [
        (["Heartbeat", "3"], source_of(HeartbeatRequest, "decode", 3)[0]),
        (["heartbeat", "3"], source_of(HeartbeatRequest, "decode", 3)[0]),
        (["HeartbeatRequest"], source_of(HeartbeatRequest, "decode", 4)[0]),
        (["12", "4", "--direction", "encode"], source_of(HeartbeatRequest, "encode", 4)[0]),
        (["Heartbeat", "--response"], source_of(HeartbeatResponse, "frame", 4)[0]),
        (["HeartbeatResponse", "0"], source_of(HeartbeatResponse, "frame", 0)[0]),
        (
            ["Heartbeat", "0", "--response", "--direction", "decode"],
            source_of(HeartbeatResponse, "decode", 0)[0],
        ),
    ],
)
def test_codec_prints_the_compiled_source(arguments: list[str], source: str) -> None:
    result = run(None, "dump", "codec", *arguments)
    assert (result.exit_code, result.stdout) == (0, source)


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["Heartbeet"], 1, "There is no API 'Heartbeet'."),
        (["Heartbeat", "5"], 1, "Heartbeat has versions 0 to 4, not 5."),
        (["Heartbeat", "--direction", "frame"], 2, "Add --response."),
    ],
)
def test_codec_refuses_unknown_apis_and_versions(
    arguments: list[str], code: int, error: str
) -> None:
    result = run(None, "dump", "codec", *arguments)
    assert result.exit_code == code
    assert error in result.stderr


def test_frame_prints_bytes_and_fields() -> None:
    lines = run(None, "dump", "frame", REQUEST.hex()).stdout.splitlines()
    assert len(lines) == 9
    assert lines[1].split(None, 2) == ["00", "0c", "api_key 12 Heartbeat"]
    assert lines[5] == '07 6f 72 64 65 72 73                             group_id "orders"'


@pytest.mark.parametrize(
    "text",
    [
        REQUEST.hex(" "),
        REQUEST.hex(":"),
        "0x" + REQUEST.hex(),
        "".join(f"\\x{byte:02x}" for byte in REQUEST),
        REQUEST.hex().upper() + "\n",
    ],
    ids=["spaces", "colons", "0x", "escapes", "upper"],
)
def test_frame_reads_common_forms_of_hexadecimal(text: str) -> None:
    expected = run(None, "dump", "frame", REQUEST.hex()).stdout
    assert run(None, "dump", "frame", text).stdout == expected
    assert run(None, "dump", "frame", "-", stdin=text).stdout == expected


def test_frame_reads_raw_bytes_from_standard_input() -> None:
    expected = run(None, "dump", "frame", REQUEST.hex()).stdout
    assert run(None, "dump", "frame", "-", stdin=REQUEST).stdout == expected


def test_frame_reads_consecutive_frames() -> None:
    one = run(None, "dump", "frame", REQUEST.hex()).stdout
    assert run(None, "dump", "frame", "-", stdin=REQUEST + REQUEST).stdout == one + "\n" + one


def test_frame_reads_a_response_with_response_to() -> None:
    result = run(None, "dump", "frame", RESPONSE.hex(), "--response-to", "Heartbeat:4")
    assert result.exit_code == 0
    assert "error_code 25 UNKNOWN_MEMBER_ID" in result.stdout


@pytest.mark.parametrize("text", ["Heartbeat", "Heartbeat:5", "Heartbeat:x"])
def test_frame_refuses_an_unknown_request_in_response_to(text: str) -> None:
    result = run(None, "dump", "frame", RESPONSE.hex(), "--response-to", text)
    assert result.exit_code == 2
    assert "is not between Heartbeat:0 and Heartbeat:4" in result.stderr


def test_malformed_frame_is_shown_up_to_the_wrong_byte() -> None:
    result = run(None, "dump", "frame", REQUEST[:-4].hex())
    assert result.exit_code == 1
    assert 'group_id "orders"' in result.stdout
    assert result.stdout.splitlines()[-1].endswith("not decoded")
    assert "Error: Malformed at byte 28" in result.stderr


def test_frame_cuts_long_values_without_full() -> None:
    assignment = SyncGroupRequestAssignment(member_id="m", assignment=b"\xff" * 100)
    request = SyncGroupRequest(
        group_id="g", generation_id=1, member_id="m", assignments=[assignment]
    )
    text = encode_request(request, 0, 1, None).hex()
    short = run(None, "dump", "frame", text).stdout
    full = run(None, "dump", "frame", text, "--full").stdout
    assert "... 40 more bytes (--full)" in short
    assert "more bytes" not in full
    assert full.count("ff") == 100 + 2  # and the null client id


def test_frame_as_json() -> None:
    (decoded,) = json.loads(run(None, "dump", "frame", REQUEST.hex(), "--json").stdout)
    assert decoded == decode_frame(REQUEST, None)


def test_frame_as_json_has_nested_structures() -> None:
    request = FetchRequest(
        replica_id=-1, max_wait_ms=1, min_bytes=1, isolation_level=0, topics=[], rack_id="r"
    )
    frame = encode_request(request, 18, 1, None)
    (decoded,) = json.loads(run(None, "dump", "frame", frame.hex(), "--json").stdout)
    assert decoded["message"]["rack_id"] == "r"
    assert decoded["message"]["topics"] == []


def test_malformed_frame_as_json_is_refused() -> None:
    result = run(None, "dump", "frame", REQUEST[:-4].hex(), "--json")
    assert result.exit_code == 1
    assert "Malformed frame" in result.stderr


def test_frame_refuses_other_text_than_hexadecimal() -> None:
    result = run(None, "dump", "frame", "xyz")
    assert result.exit_code == 2
    assert "is not hexadecimal" in result.stderr
