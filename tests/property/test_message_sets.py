"""Message sets: conversions keep offsets, keys and values, and damaged ones are refused.

Rules: [record-batch/legacy-messages].
"""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.message_sets import (
    batch_of_messages,
    encode_messages,
    encode_wrapper,
    messages_of_batches,
)
from coterie.protocol.records import (
    Compression,
    Record,
    decode_records,
    encode_records,
    iterate_batches,
    read_header,
)
from coterie.server.logs.received_batches import RefusedBatch, only_batch

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
ALL_CODECS = [Compression.NONE, *CODECS]
CONTENT = st.none() | st.binary(max_size=20)


@st.composite
def record_lists(draw: st.DrawFn, least: int = 1) -> list[Record]:
    """Draw records whose offsets ascend, with gaps, as in a compacted log."""
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(least, 6))):
        time_ms = draw(st.integers(-1, 2**45))
        records.append(Record(offset, time_ms, draw(CONTENT), draw(CONTENT)))
        offset += draw(st.integers(1, 3))
    return records


def read_all(messages: bytes) -> list[Record]:
    """Read messages with the product's reader of old data directories."""
    return [
        record
        for position, header in iterate_batches(messages)
        for record in decode_records(messages, header, position)
    ]


def in_magic(records: list[Record], magic: int) -> list[Record]:
    return records if magic else [record._replace(timestamp_ms=-1) for record in records]


@given(record_lists(), st.sampled_from([0, 1]))
def test_messages_are_read_as_they_were_written(records: list[Record], magic: int) -> None:
    assert read_all(encode_messages(records, magic)) == in_magic(records, magic)


@given(record_lists(), st.sampled_from([0, 1]), st.sampled_from(CODECS))
def test_compressed_messages_are_read_as_they_were_written(
    records: list[Record], magic: int, codec: Compression
) -> None:
    assert read_all(encode_wrapper(records, magic, codec)) == in_magic(records, magic)


@given(
    record_lists(),
    st.sampled_from([0, 1]),
    st.sampled_from(ALL_CODECS),
    st.integers(0, 8),
)
def test_batch_becomes_messages_and_a_batch_again(
    records: list[Record], magic: int, codec: Compression, skipped: int
) -> None:
    first_offset = records[0].offset + skipped
    batch = encode_records(records, compression=codec)
    messages = b"".join(messages_of_batches(batch, magic, first_offset))
    wanted = [each for each in records if codec or each.offset >= first_offset]
    assert read_all(messages) == in_magic(wanted, magic)
    if wanted:
        again = batch_of_messages(messages)
        header = read_header(again)
        assert (header.magic, header.compression, header.base_offset) == (2, codec, 0)
        assert decode_records(again, header) == [
            each._replace(offset=offset) for offset, each in enumerate(in_magic(wanted, magic))
        ]


@given(record_lists(), st.sampled_from([0, 1]), st.sampled_from(ALL_CODECS), st.data())
@settings(max_examples=200)
def test_damaged_messages_are_refused_or_read(
    records: list[Record], magic: int, codec: Compression, data: st.DataObject
) -> None:
    """Whatever bytes a client sends, the answer is a batch or a refusal."""
    whole = encode_wrapper(records, magic, codec) if codec else encode_messages(records, magic)
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with suppress(RefusedBatch):
        batch, header = only_batch(bytes(damaged), 2)
        assert decode_records(batch, header)
    # As if the CRC were right, which it is where a client made the message this way.
    with suppress(MalformedFrame):
        batch_of_messages(bytes(damaged) or whole)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4])
def test_many_messages_in_a_small_one_are_bounded(codec: Compression) -> None:
    """A compressed message may not hold more than the limits of decompression allow."""
    records = [Record(0, 0, None, bytes(6 << 20))]
    with pytest.raises(MalformedFrame):
        batch_of_messages(encode_wrapper(records, 1, codec))
