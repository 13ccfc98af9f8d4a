"""`coterie dump log` with damage: file and position are reported, and the rest is shown."""

from pathlib import Path
from typing import Any

import pytest

from coterie.protocol.records import Compression
from tests.unit.cli.command import run
from tests.unit.cli.logs import batch, commit, json_lines, segment

# Ten batches of two records, about 100 bytes each.
BATCHES = [batch(2 * n, (b"key-%d" % n, b"value"), (b"other", b"x" * 20)) for n in range(10)]
STARTS = [sum(map(len, BATCHES[:n])) for n in range(11)]


def dumped(path: Path, *options: str) -> tuple[int, list[dict[str, Any]], str]:
    """Return the exit code, the lines, and standard error."""
    result = run(None, "dump", "log", str(path), "--json", *options)
    return result.exit_code, json_lines(result.stdout), result.stderr


def changed(data: bytes, position: int, new: bytes) -> bytes:
    return data[:position] + new + data[position + len(new) :]


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows if row["kind"] == "record"]


def test_flipped_bit_costs_one_batch(tmp_path: Path) -> None:
    data = b"".join(BATCHES)
    for position in range(STARTS[3] + 8, STARTS[4]):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        code, rows, error = dumped(segment(tmp_path / "t-0", bytes(damaged)))
        in_epoch = STARTS[3] + 12 <= position < STARTS[3] + 16
        if in_epoch:
            # The checksum does not cover the leader epoch, so a wrong one is not noticed.
            assert (code, offsets(rows)) == (0, list(range(20)))
            continue
        assert code == 1, position
        assert "1 place is damaged." in error
        (damage,) = [row for row in rows if row["kind"] != "record"]
        assert (damage["kind"], damage["position"]) == ("damage", STARTS[3])
        assert damage["size"] == len(BATCHES[3])
        assert offsets(rows) == [n for n in range(20) if n not in (6, 7)]


def test_wrong_offset_is_reported_and_the_batch_is_shown(tmp_path: Path) -> None:
    data = changed(b"".join(BATCHES), STARTS[3], (2).to_bytes(8, "big"))
    code, rows, _ = dumped(segment(tmp_path / "t-0", data))
    (damage,) = [row for row in rows if row["kind"] == "damage"]
    assert (code, damage["position"], damage["size"]) == (1, STARTS[3], 0)
    assert damage["reason"] == "offsets 2 to 3 where 6 is next"
    assert offsets(rows) == [0, 1, 2, 3, 4, 5, 2, 3, *range(8, 20)]


def test_offset_of_the_next_segment_is_reported(tmp_path: Path) -> None:
    segment(tmp_path / "t-0", *BATCHES[:5])
    segment(tmp_path / "t-0", *BATCHES[4:], base_offset=8)
    code, rows, _ = dumped(tmp_path / "t-0")
    (damage,) = [row for row in rows if row["kind"] == "damage"]
    assert damage["reason"] == "offsets 8 to 9 in a segment that ends before 8"
    assert code == 1


def test_zeros_in_the_middle_are_skipped(tmp_path: Path) -> None:
    data = changed(b"".join(BATCHES), STARTS[2], bytes(STARTS[5] - STARTS[2]))
    code, rows, _ = dumped(segment(tmp_path / "t-0", data))
    (damage,) = [row for row in rows if row["kind"] == "damage"]
    assert (damage["position"], damage["size"], damage["reason"]) == (
        STARTS[2], STARTS[5] - STARTS[2], "zeros",
    )  # fmt: skip
    assert offsets(rows) == [*range(4), *range(10, 20)]
    assert code == 1


def test_batch_is_found_after_megabytes_of_garbage(tmp_path: Path) -> None:
    """The boundary of a chunk is anywhere in the header of the batch."""
    garbage = bytes(range(256)) * 4096
    for extra in range(0, 70, 7):
        data = BATCHES[0] + garbage + bytes(extra) + BATCHES[1]
        code, rows, _ = dumped(segment(tmp_path / "t-0", data))
        assert (code, offsets(rows)) == (1, [0, 1, 2, 3]), extra


@pytest.mark.parametrize("cut", [1, 8, 16, 17, 60, 61, 70])
def test_torn_tail_is_no_damage(tmp_path: Path, cut: int) -> None:
    path = segment(tmp_path / "t-0", *BATCHES[:3], BATCHES[3][:cut])
    code, rows, error = dumped(path)
    assert (code, error) == (0, "")
    assert offsets(rows) == list(range(6))
    assert (rows[-1]["kind"], rows[-1]["position"], rows[-1]["size"]) == (
        "torn_tail", STARTS[3], cut,
    )  # fmt: skip
    text = run(None, "dump", "log", str(path)).stdout.splitlines()[-1]
    assert text.startswith(f"{path}: byte {STARTS[3]}: torn tail of {cut} bytes: ")


@pytest.mark.parametrize("tail", [bytes(4096), changed(BATCHES[3], 65, b"\xff")])
def test_torn_tail_can_have_the_full_length_of_a_batch(tmp_path: Path, tail: bytes) -> None:
    code, rows, _ = dumped(segment(tmp_path / "t-0", *BATCHES[:3], tail))
    assert (code, rows[-1]["kind"], rows[-1]["size"]) == (0, "torn_tail", len(tail))


def test_incomplete_end_of_an_older_segment_is_damage(tmp_path: Path) -> None:
    path = segment(tmp_path / "t-0", *BATCHES[:3], BATCHES[3][:50])
    segment(tmp_path / "t-0", *BATCHES[4:], base_offset=8)
    for given in (tmp_path / "t-0", path):
        code, rows, _ = dumped(given)
        assert (code, [row["kind"] for row in rows if row["kind"] != "record"]) == (1, ["damage"])


def test_undecodable_records_with_the_right_checksum_are_reported(tmp_path: Path) -> None:
    good = batch(0, (b"k", b"v" * 100), compression=Compression.ZSTD)
    from coterie.protocol import checksum

    body = bytearray(good)
    body[70] ^= 0xFF
    body[17:21] = checksum.crc32c(bytes(body[21:])).to_bytes(4, "big")
    code, rows, _ = dumped(segment(tmp_path / "t-0", bytes(body), BATCHES[1]))
    assert (code, rows[0]["kind"]) == (1, "damage")
    assert rows[0]["reason"].startswith("the checksum is right, but the records can't be decoded: ")
    assert offsets(rows) == [2, 3]


def test_damage_is_shown_between_the_records(tmp_path: Path) -> None:
    data = changed(b"".join(BATCHES[:3]), STARTS[1] + 62, b"\xff")
    path = segment(tmp_path / "__consumer_offsets-0", data)
    result = run(None, "dump", "log", str(path), "--values", "raw")
    lines = result.stdout.splitlines()
    assert lines[3].startswith(f"{path}: byte {STARTS[1]}: DAMAGED: the checksum is not 0x")
    assert lines[3].endswith(f"; {len(BATCHES[1])} bytes skipped")
    assert result.exit_code == 1
    assert "A server does not serve a damaged partition." in result.stderr


def test_excessive_length_is_damage(tmp_path: Path) -> None:
    data = changed(b"".join(BATCHES), STARTS[1] + 8, b"\x7f\xff\xff\xff")
    code, rows, _ = dumped(segment(tmp_path / "t-0", data))
    (damage,) = [row for row in rows if row["kind"] == "damage"]
    assert damage["reason"] == "the batch claims a length of 2147483659 bytes"
    assert (code, len(offsets(rows))) == (1, 18)


def test_walk_ends_in_order_whatever_is_cut_out(tmp_path: Path) -> None:
    """Whatever is cut out of a log, the walk ends, keeps the order, and repeats nothing."""
    data = b"".join(batch(2 * n, commit("g", n), commit("h", n)) for n in range(4))
    for start in range(0, len(data), 13):
        for size in (1, 40, 200):
            path = segment(tmp_path / "__consumer_offsets-0", data[:start] + data[start + size :])
            code, rows, _ = dumped(path)
            found = offsets(rows)
            assert found == sorted(set(found)), (start, size)
            assert code in (0, 1)
            damaged = sum(row["kind"] == "damage" for row in rows)
            assert (code == 1) == (damaged > 0)
