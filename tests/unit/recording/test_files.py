"""The files of a recording: what was written is read, also after a crash and after a rotation."""

import os
from pathlib import Path

import pytest

from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.recording.files import Limits, numbered, read
from coterie.recording.format import Flag, Kind, NotARecording
from coterie.recording.recorder import Observation
from tests.unit.recording.written import START_MS, opened, request, write

HEARTBEAT = HeartbeatRequest(group_id="orders", generation_id=1, member_id="c1-1")


def heartbeats(count: int, first: int = 1) -> list[Observation]:
    return [request(HEARTBEAT, 4, n, at_ms=n) for n in range(first, first + count)]


def correlation_ids(path: str) -> list[int]:
    entries = read(path).entries
    return [int.from_bytes(e.data[4:8]) for e in entries if e.kind is Kind.REQUEST]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    closed = Observation(Kind.CLOSED, 1, START_MS + 9, b"")
    path = write(tmp_path / "r", [opened(), *heartbeats(2), closed])
    recording = read(path)
    assert recording.header.program == "a test"
    assert [e.kind for e in recording.entries] == [
        Kind.OPENED, Kind.REQUEST, Kind.REQUEST, Kind.CLOSED,
    ]  # fmt: skip
    assert [e.at_ms - START_MS for e in recording.entries] == [0, 1, 2, 9]
    assert recording.remarks == []


def test_frame_in_several_chunks_is_one_entry(tmp_path: Path) -> None:
    whole = request(HEARTBEAT, 4, at_ms=5)
    chunks = [whole._replace(data=whole.data[n : n + 1]) for n in range(len(whole.data))]
    path = write(tmp_path / "r", [opened(), *chunks])
    (_, entry) = read(path).entries
    assert entry.data == whole.data[4:]


@pytest.mark.parametrize("cut_bytes", range(1, 80, 7))
def test_torn_tail_is_read_up_to_the_last_whole_entry(tmp_path: Path, cut_bytes: int) -> None:
    """[recording/order]"""
    path = write(tmp_path / "r", [opened(), *heartbeats(3)])
    os.truncate(path, os.path.getsize(path) - cut_bytes)
    assert correlation_ids(path) in ([1, 2], [1])
    assert read(path).remarks == ["the end of the last file is incomplete"]


def test_damaged_entry_ends_what_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "r", [opened(), *heartbeats(3)])
    data = bytearray(Path(path).read_bytes())
    data[-1] ^= 1
    Path(path).write_bytes(data)
    assert correlation_ids(path) == [1, 2]


def test_full_file_is_renamed_and_oldest_is_removed(tmp_path: Path) -> None:
    """[recording/rotation]"""
    path = write(tmp_path / "r", [opened(), *heartbeats(40)], Limits(500, 3))
    assert sorted(os.listdir(tmp_path)) == ["r", "r.1", "r.2"]
    assert max(os.path.getsize(tmp_path / name) for name in os.listdir(tmp_path)) < 1000
    found = correlation_ids(path)
    assert found == list(range(found[0], 41))
    recording = read(path)
    assert recording.remarks == [
        f"the first {recording.header.number - 1} files of the recording are missing"
    ]
    # The open connection is known although its beginning is gone.
    assert recording.entries[0].kind is Kind.OPENED
    assert recording.entries[0].flags is Flag.CONTINUED
    assert sum(e.kind is Kind.OPENED for e in recording.entries) == 1


def test_all_files_of_a_recording_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "r", [opened(), *heartbeats(15)], Limits(500, 9))
    assert os.path.exists(numbered(path, 1))
    assert correlation_ids(path) == list(range(1, 16))
    assert read(path).remarks == []


def test_earlier_recording_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    write(tmp_path / "r", [opened(), *heartbeats(3)])
    path = write(tmp_path / "r", [opened(), *heartbeats(1, first=7)])
    assert correlation_ids(path) == [7]
    assert correlation_ids(numbered(path, 1)) == [1, 2, 3]


def test_file_of_another_kind_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("my notes")
    with pytest.raises(NotARecording, match="is no recording; it is not overwritten"):
        write(tmp_path / "r", [])
    with pytest.raises(NotARecording, match="does not begin as a recording does"):
        read(str(tmp_path / "r"))
    assert (tmp_path / "r").read_text() == "my notes"


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    path = write(tmp_path / "r", [])
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_bytes_that_are_no_frame_end_a_direction(tmp_path: Path) -> None:
    garbage = Observation(Kind.REQUEST, 1, START_MS, b"\xff\xff\xff\xffGET / HTTP/1.1")
    path = write(tmp_path / "r", [opened(), *heartbeats(1), garbage, *heartbeats(1, first=2)])
    assert [e.kind for e in read(path).entries] == [Kind.OPENED, Kind.REQUEST, Kind.UNREADABLE]
