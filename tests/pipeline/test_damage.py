"""Damage never becomes a row, is always reported, and does not affect its neighbours.

Rules: [pipeline/quarantine], [pipeline/batch-order], [group-log/record-types].
"""

import os
import random
from pathlib import Path

import pytest

from coterie.pipeline.codec.damage import MAX_KEPT_BYTES
from coterie.pipeline.codec.framing import frame
from coterie.pipeline.codec.numbers import Buffer
from coterie.pipeline.ranges import log_end, whole_end
from coterie.protocol.records import encode_batch
from tests.pipeline.histories import (
    NOW_MS,
    commit_key,
    commit_value,
    reasons,
    rows,
    steps,
    write_segments,
)
from tests.record_batches import with_offset

RECORDS = 3


def batch(number: int, epoch: int = 0) -> bytes:
    """Return batch `number` of a log without gaps; each has its own texts."""
    pairs: list[tuple[bytes, bytes | None]] = [
        (commit_key(f"group-{number}", f"topic-{each}"), commit_value(offset=number, metadata="m"))
        for each in range(RECORDS)
    ]
    return encode_batch(pairs, number * RECORDS, NOW_MS + number, leader_epoch=epoch)


def test_flipped_bits_are_reported(tmp_path: Path) -> None:
    """A flipped bit never changes a row: rows may only be missing, and are reported as damage."""
    log = [batch(number) for number in range(5)]
    write_segments(str(tmp_path), (0, log), (15, [batch(5)]))
    whole = rows(str(tmp_path), "raw")
    assert len(whole) == 18
    data = b"".join(log)
    begin = len(log[0]) + len(log[1])
    rng = random.Random(5)
    # Every third bit of one header, which are some of each byte, and some of its records.
    bits = list(range(0, 61 * 8, 3)) + rng.sample(range(61 * 8, len(log[2]) * 8), 60)
    path = tmp_path / f"{0:020d}.log"
    lost_most = 0
    for bit in bits:
        damaged = bytearray(data)
        damaged[begin + bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        found = rows(str(tmp_path), "raw")
        missing = [row for row in whole if row not in found]
        assert [row for row in whole if row in found] == found, f"bit {bit}: a row is wrong"
        assert missing, f"bit {bit} of a header or record changed nothing"
        assert reasons(str(tmp_path)), f"bit {bit}: rows are missing without a report"
        lost_most = max(lost_most, len(missing))
    # For a changed offset the neighbour may be left out as well. No other damage costs more.
    assert lost_most <= 2 * RECORDS


def test_damaged_bytes_are_kept_with_their_position(tmp_path: Path) -> None:
    log = [batch(number) for number in range(4)]
    bad = bytearray(log[1])
    bad[70] ^= 1
    write_segments(str(tmp_path), (0, [log[0], bytes(bad), *log[2:]]))
    assert [row["committed_offset"] for row in rows(str(tmp_path), "commits")] == [0] * 3 + [
        2
    ] * 3 + [3] * 3
    (found,) = [each for step in steps(str(tmp_path), "quarantine") for each in step.damages]
    assert (found.position, found.length_bytes) == (len(log[0]), len(bad))
    assert (found.reason, found.log_offset, found.data) == ("crc", 3, bytes(bad))


@pytest.mark.parametrize("chunk_bytes", [100, 1 << 20])
def test_decoding_continues_after_garbage(tmp_path: Path, chunk_bytes: int) -> None:
    log = [batch(number) for number in range(6)]
    garbage = random.Random(1).randbytes(700)
    write_segments(str(tmp_path), (0, [*log[:2], garbage, *log[2:]]), index=False)
    found = rows(str(tmp_path), "commits", chunk_bytes=chunk_bytes)
    assert len(found) == 18
    assert [row["log_offset"] for row in found] == list(range(18))
    assert len(reasons(str(tmp_path), chunk_bytes=chunk_bytes)) == 1


def test_damaged_length_costs_only_its_own_batch(tmp_path: Path) -> None:
    for length in (0, 5, 1 << 30, -1, 200):
        log = [batch(number) for number in range(4)]
        log[1] = log[1][:8] + length.to_bytes(4, signed=True) + log[1][12:]
        write_segments(str(tmp_path), (0, log))
        assert len(rows(str(tmp_path), "commits")) == 9
        assert len(reasons(str(tmp_path))) == 1


def test_torn_end_of_a_log_is_not_part_of_it(tmp_path: Path) -> None:
    log = [batch(number) for number in range(3)]
    for cut in (1, 8, 20, 61, 90, len(log[2]) - 1):
        write_segments(str(tmp_path), (0, [*log[:2], log[2][:cut]]))
        assert len(rows(str(tmp_path), "commits")) == 6
        assert reasons(str(tmp_path)) == ["torn"]
        assert log_end(str(tmp_path)) == 6
        assert reasons(str(tmp_path), end_offset=6) == [], "a follower's range ends before it"
    write_segments(str(tmp_path), (0, [*log, bytes(5000)]))
    assert reasons(str(tmp_path)) == ["torn"]
    assert log_end(str(tmp_path)) == 9


def test_batch_with_missing_pages_counts_when_it_is_complete(tmp_path: Path) -> None:
    log = [batch(number) for number in range(3)]
    torn = log[2][:80] + bytes(len(log[2]) - 80)
    write_segments(str(tmp_path), (0, [*log[:2], torn]))
    assert log_end(str(tmp_path)) == 6
    write_segments(str(tmp_path), (0, log))
    assert log_end(str(tmp_path)) == 9


def test_order_is_checked_across_pieces_and_segments(tmp_path: Path) -> None:
    log = [batch(number) for number in range(6)]
    moved = with_offset(log[2], 1000)
    write_segments(str(tmp_path), (0, [*log[:2], moved, *log[3:5]]), (15, log[5:]))
    for chunk_bytes in (100, 1 << 20):
        found = rows(str(tmp_path), "raw", chunk_bytes=chunk_bytes)
        assert [row["log_offset"] for row in found] == [*range(6), *range(9, 18)]
        assert reasons(str(tmp_path), "raw", chunk_bytes=chunk_bytes) == ["order"]
    # The last batch of a segment must end before the next segment begins.
    write_segments(str(tmp_path), (0, [*log[:4], with_offset(log[4], 14)]), (15, log[5:]))
    assert reasons(str(tmp_path), "raw") == ["order"]
    # A leader epoch must not rise and fall again.
    write_segments(
        str(tmp_path), (0, [*log[:2], with_offset(log[2], 6, 64), *log[3:5]]), (15, log[5:])
    )
    assert reasons(str(tmp_path), "raw") == ["order"]
    write_segments(str(tmp_path), (0, [*log[:2], batch(2, 1), batch(3, 1)]))
    assert reasons(str(tmp_path), "raw") == []


def test_records_that_cannot_be_decoded_have_reasons(tmp_path: Path) -> None:
    pairs = [
        (commit_key(), commit_value()),
        (commit_key(), (9).to_bytes(2) + b"later"),
        (commit_key(), commit_value()[:-3]),
        (commit_key() + b"x", commit_value()),
        (b"\0\x01\0\x02\xff\xfe\0\0\0\0\0\0", commit_value()),
        (b"\0\x63new", b""),
        (b"\0", b""),
        (bytes.fromhex("00030003677270"), bytes.fromhex("0001")),
    ]
    write_segments(str(tmp_path), (0, [encode_batch(pairs, 0, NOW_MS)]))
    found = {
        each.log_offset: each.reason
        for step in steps(str(tmp_path), "quarantine")
        for each in step.damages
    }
    assert found == {
        1: "unknown_version", 2: "bad_length", 3: "bad_length", 4: "utf8", 5: "unknown_type",
        6: "unknown_type", 7: "unknown_version",
    } or found == {
        1: "unknown_version", 2: "bad_length", 4: "utf8", 5: "unknown_type",
        6: "unknown_type", 7: "unknown_version",
    }  # fmt: skip
    assert rows(str(tmp_path), "commits")[0]["log_offset"] == 0


def test_adjacent_ranges_report_every_damage_once(tmp_path: Path) -> None:
    log = [batch(number) for number in range(30)]
    for number in (0, 9, 12, 15, 29):
        log[number] = log[number][:70] + b"!" + log[number][71:]
    write_segments(str(tmp_path), (0, log[:20]), (60, log[20:]))
    whole = [
        (each.position, step.source.file)
        for step in steps(str(tmp_path), "raw")
        for each in step.damages
    ]
    assert len(whole) == 5
    for cut in range(0, 91, 3):
        parts = [
            (each.position, step.source.file)
            for first, end in ((0, cut), (cut, (1 << 63) - 1))
            if first < end
            for step in steps(str(tmp_path), "raw", first, end_offset=end, chunk_bytes=500)
            for each in step.damages
        ]
        assert sorted(parts) == sorted(whole), f"cut at {cut}"


def test_batch_with_wrong_checksum_is_decoded_without_the_check(tmp_path: Path) -> None:
    log = [batch(number) for number in range(3)]
    log[1] = log[1][:17] + bytes(4) + log[1][21:]
    write_segments(str(tmp_path), (0, log))
    assert len(rows(str(tmp_path), "commits")) == 6
    assert len(rows(str(tmp_path), "commits", crc=False)) == 9


def test_random_bytes_are_damage() -> None:
    rng = random.Random(9)
    for size in (0, 1, 11, 17, 60, 61, 5000):
        data = rng.randbytes(size)
        framed = frame(Buffer(data), final=True)
        assert len(framed.batches) == 0
        assert sum(each.length_bytes for each in framed.damages) == size
        assert all(len(each.data) <= MAX_KEPT_BYTES for each in framed.damages)


def test_end_of_whole_batches_is_found_in_steps(tmp_path: Path) -> None:
    log = [batch(number) for number in range(20)]
    write_segments(str(tmp_path), (0, log[:12]), (36, log[12:]))
    offset, hint, seen = 0, None, []
    while True:
        found = whole_end(str(tmp_path), offset, len(log[0]) * 2 + 1, hint)
        if found.offset == offset:
            break
        offset, hint = found.offset, found.hint
        seen.append(offset)
    assert seen[-1] == 60
    assert all(right - left in (3, 6) for left, right in zip([0, *seen], seen, strict=False))
    assert whole_end(str(tmp_path), 0).offset == 60
    assert whole_end(str(tmp_path), 7, 1).offset == 9
    os.remove(tmp_path / f"{0:020d}.log")
    assert whole_end(str(tmp_path), 7).offset == 60
