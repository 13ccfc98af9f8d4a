"""The bytes of a write-ahead file: what is read back, and what is not taken for a frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.storage.write_ahead_format import (
    BLOCK_BYTES,
    DamagedFrame,
    Entry,
    PartitionId,
    decode_frames,
    encode_frame,
    file_name,
    parse_file_name,
)

FILE_ID = b"\x01\x02\x03\x04\x05\x06\x07\x08"
OTHER_ID = bytes(8)

ENTRIES = st.builds(
    Entry,
    st.builds(PartitionId, st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1)),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.binary(max_size=700),
    st.integers(0, 2**32 - 1),
)


def entry(number: int, data: bytes = b"batch") -> Entry:
    return Entry(PartitionId(bytes([number]) * 16, number), 100 * number, 7, data, 5)


def frames(count: int, file_id: bytes = FILE_ID) -> list[bytes]:
    return [encode_frame(file_id, number, [entry(number)]) for number in range(count)]


@given(st.lists(st.lists(ENTRIES, min_size=1, max_size=4), max_size=4), st.integers(0, 3))
def test_frames_are_read_back(written: list[list[Entry]], zero_blocks: int) -> None:
    data = b"".join(
        encode_frame(FILE_ID, number, entries) for number, entries in enumerate(written)
    )
    assert not len(data) % BLOCK_BYTES
    found = decode_frames(FILE_ID, data + bytes(zero_blocks * BLOCK_BYTES))
    assert found == [each for entries in written for each in entries]


def test_every_cut_of_the_last_frame_leaves_the_others() -> None:
    first, second = frames(2)
    for size in range(len(second)):
        for rest in (second[:size], second[:size].ljust(len(second), b"\0")):
            if rest != second:
                assert decode_frames(FILE_ID, first + rest) == [entry(0)]


def test_every_flipped_bit_is_noticed() -> None:
    first, second = frames(2)
    for bit in range(len(first) * 8):
        changed = bytearray(first)
        changed[bit >> 3] ^= 1 << (bit & 7)
        assert decode_frames(FILE_ID, bytes(changed)) == []
        with pytest.raises(DamagedFrame) as damaged:
            decode_frames(FILE_ID, bytes(changed) + second)
        assert damaged.value.position == 0


def test_frames_of_another_file_or_place_are_not_valid() -> None:
    """Blocks that an older file has left on the disk, and a frame that was written elsewhere."""
    mine, others = frames(3), frames(3, OTHER_ID)
    assert decode_frames(FILE_ID, mine[0] + others[1] + others[2]) == [entry(0)]
    with pytest.raises(DamagedFrame):
        decode_frames(FILE_ID, mine[0] + mine[0])


def test_a_record_cannot_imitate_a_frame() -> None:
    imitation = bytes(BLOCK_BYTES - 72) + frames(2)[1]
    whole = encode_frame(FILE_ID, 0, [entry(5, imitation)])
    assert decode_frames(FILE_ID, whole) == [entry(5, imitation)]
    # Of a torn frame nothing is taken. The id is random, so no client knows it.
    unknown = bytes(BLOCK_BYTES - 72) + frames(2, OTHER_ID)[1]
    torn = encode_frame(FILE_ID, 0, [entry(5, unknown)])[:-1]
    assert decode_frames(FILE_ID, torn) == []


def test_names_of_files() -> None:
    assert parse_file_name(file_name(FILE_ID)) == FILE_ID
    for name in ("coterie-wal.", "coterie-wal.01", "coterie-wal.0123456789abcdeg", "t-0"):
        assert parse_file_name(name) is None
