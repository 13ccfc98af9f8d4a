"""The four codecs: what Java clients write is read, and decompression bombs are refused.

Rules: [record-batch/bounded-decoding].
"""

import gzip
import tracemalloc

import cramjam
import pytest

from coterie.protocol import compression
from coterie.protocol.compression import (
    FREE_DECOMPRESSED_BYTES,
    MAX_DECOMPRESSED_BYTES,
    MAX_RATIO,
    Compression,
    compress,
    decompress,
)
from coterie.protocol.errors import MalformedFrame

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TEXT = b"the quick brown fox " * 5000


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(2 << 20)])
def test_compressed_data_is_decompressed_again(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


def test_snappy_is_read_raw_and_in_javas_framing() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Compression.SNAPPY, raw) == TEXT
    framed = compress(Compression.SNAPPY, TEXT)
    assert framed[:16] == bytes.fromhex("82534e4150505900 00000001 00000001")
    assert framed.count(b"quick") > 1, "blocks of 32 KiB, as in snappy-java's stream"
    assert decompress(Compression.SNAPPY, framed) == TEXT
    assert decompress(Compression.SNAPPY, framed[:16]) == b""


def test_lz4_frames_are_accepted_by_javas_reader() -> None:
    # KafkaLZ4BlockInputStream requires version 1 and independent blocks.
    frame = compress(Compression.LZ4, TEXT * 10)
    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0b1110_0001 == 0b0110_0000


@pytest.mark.parametrize("codec", CODECS)
def test_damage_is_refused(codec: Compression) -> None:
    data = compress(codec, TEXT[:4000])
    for length in range(0, len(data), 7):
        if codec is Compression.SNAPPY and length == 16:
            continue  # a header without blocks is complete
        with pytest.raises(MalformedFrame):
            decompress(codec, data[:length])
    with pytest.raises(MalformedFrame):
        decompress(codec, b"\x00" + data)


def test_undefined_codecs_are_refused() -> None:
    for codec in (5, 6, 7):
        with pytest.raises(MalformedFrame, match="undefined"):
            decompress(codec, b"")


@pytest.mark.parametrize("codec", CODECS)
def test_bombs_are_refused_at_the_limit(codec: Compression) -> None:
    # More than the free size, from far less than a hundredth of it. Snappy cannot compress so much,
    # but a block begins with its claimed size.
    bomb = compress(codec, bytes(FREE_DECOMPRESSED_BYTES + 1))
    if codec is Compression.SNAPPY:
        bomb = b"\x81\x80\x80\x02" + bytes(cramjam.snappy.compress_raw(bytes(1000)))[2:]
    assert len(bomb) * MAX_RATIO < FREE_DECOMPRESSED_BYTES
    tracemalloc.start()
    with pytest.raises(MalformedFrame):
        decompress(codec, bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= FREE_DECOMPRESSED_BYTES + 2 * len(bomb) + (64 << 10)


def test_a_nested_bomb_is_refused() -> None:
    # A hundred members of a megabyte: one is within the limit, all together are not.
    bomb = gzip.compress(bytes(1 << 20)) * 100
    assert len(bomb) * MAX_RATIO > FREE_DECOMPRESSED_BYTES
    with pytest.raises(MalformedFrame, match="more than"):
        decompress(Compression.GZIP, bomb)
    block = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
    framed = compress(Compression.SNAPPY, b"") + (len(block).to_bytes(4, "big") + block) * 100
    with pytest.raises(MalformedFrame, match="claims"):
        decompress(Compression.SNAPPY, framed)


def test_the_ratio_is_limited_beyond_the_free_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "FREE_DECOMPRESSED_BYTES", 1000)
    data = bytes(range(256)) * 100
    packed = compress(Compression.ZSTD, data)
    assert len(data) / len(packed) > 50
    monkeypatch.setattr(compression, "MAX_RATIO", 50)
    with pytest.raises(MalformedFrame):
        decompress(Compression.ZSTD, packed)
    monkeypatch.setattr(compression, "MAX_RATIO", len(data) // len(packed) + 1)
    assert decompress(Compression.ZSTD, packed) == data
    monkeypatch.setattr(compression, "MAX_DECOMPRESSED_BYTES", len(data) - 1)
    with pytest.raises(MalformedFrame):
        decompress(Compression.ZSTD, packed)
    assert len(data) < MAX_DECOMPRESSED_BYTES
