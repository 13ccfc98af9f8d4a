"""The codecs of record batches [record-batch/codecs], with limits on what comes out of them.

The broker stores compressed batches as they came. They are decompressed to check what a producer
sent, to look up timestamps, to compact, to recompress for a topic with a codec of its own, and by
our tools.
"""

from enum import IntEnum
from types import ModuleType

from coterie.protocol.errors import MalformedFrame

# The limits of [record-batch/bounded-decoding]. Producers limit a batch by its uncompressed
# size (max.request.size: 1 MiB by default, some tens of MiB where it is raised).
MAX_DECOMPRESSED_BYTES = 64 << 20
# Up to here any ratio is accepted, because repetitive records shrink by factors of thousands. With
# the copy that is returned it takes 8 MiB, which any frame may cost.
FREE_DECOMPRESSED_BYTES = 4 << 20
# Text and JSON do not reach this ratio.
MAX_RATIO = 100

# The first guess of the decompressed size: most batches shrink by less than this.
_FIRST_GUESS_RATIO = 8
_FIRST_GUESS_BYTES = 64 << 10
_GUESS_GROWTH = 16

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
# The block size of snappy-java's output stream.
_XERIAL_BLOCK_BYTES = 32 << 10


class Compression(IntEnum):
    """A codec's number in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def decompress(codec: int, data: bytes) -> bytes:
    """Return the decompressed data.

    Raises:
        MalformedFrame: the codec is undefined, the data is damaged, or it exceeds a limit when it
            is decompressed.
    """
    if codec == Compression.NONE:
        return data
    if codec > Compression.ZSTD:
        raise MalformedFrame(f"compression codec {codec} is undefined")
    if not data:
        raise MalformedFrame("compressed records of no bytes")
    allowed = max(FREE_DECOMPRESSED_BYTES, len(data) * MAX_RATIO)
    limit = min(MAX_DECOMPRESSED_BYTES, allowed)
    # Imported here because most servers never decompress a batch.
    import cramjam

    try:
        if codec == Compression.SNAPPY:
            return _decompress_snappy(cramjam.snappy, data, limit)
    except cramjam.DecompressionError as error:
        raise MalformedFrame(f"a snappy block is damaged: {error}") from None
    library: ModuleType = {
        Compression.GZIP: cramjam.gzip,
        Compression.LZ4: cramjam.lz4,
        Compression.ZSTD: cramjam.zstd,
    }[Compression(codec)]
    # The library fills a buffer of ours and fails if it is too small, so a decompression bomb costs
    # the limit and no more. It fails in the same way for damaged data, so damage is only known
    # when a buffer of the full size has failed.
    size = min(limit, max(_FIRST_GUESS_BYTES, len(data) * _FIRST_GUESS_RATIO))
    while True:
        buffer = bytearray(size)
        try:
            filled = library.decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            # Release this buffer before the next one is made: together they would exceed the limit.
            del buffer
            if size == limit:
                raise MalformedFrame(
                    f"{len(data)} bytes of {Compression(codec).name.lower()} are damaged"
                    f" or hold more than {limit} bytes: {error}"
                ) from None
            size = min(limit, size * _GUESS_GROWTH)
        else:
            return bytes(memoryview(buffer)[:filled])


def _decompress_snappy(snappy: ModuleType, data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_block(snappy, data, limit)
    position = _XERIAL_HEADER_BYTES
    blocks = []
    left = limit
    while position != len(data):
        size = int.from_bytes(data[position : position + 4])
        position += 4
        if position + size > len(data):
            raise MalformedFrame(f"a snappy block at byte {position} claims {size} bytes")
        blocks.append(_decompress_block(snappy, data[position : position + size], left))
        left -= len(blocks[-1])
        position += size
    return b"".join(blocks)


def _decompress_block(snappy: ModuleType, block: bytes, limit: int) -> bytes:
    # A block begins with its decompressed size, so a refusal comes before any allocation.
    size = snappy.decompress_raw_len(block)
    if size > limit:
        raise MalformedFrame(f"a snappy block claims {size} bytes where {limit} are allowed")
    if size == 0:
        # The library ignores what follows the size. An empty block is one byte.
        if len(block) != 1:
            raise MalformedFrame(f"a snappy block of {len(block)} bytes claims to be empty")
        return b""
    buffer = bytearray(size)
    filled = snappy.decompress_raw_into(block, buffer)
    return bytes(memoryview(buffer)[:filled])


def compress(codec: Compression, data: bytes, level: int | None = None) -> bytes:
    """Return the data compressed as the Java producer compresses it.

    Args:
        codec: the codec.
        data: what to compress.
        level: of gzip, lz4 or zstd, in Kafka's range; None for Kafka's default.
    """
    if codec is Compression.NONE:
        return data
    import cramjam

    if codec is Compression.SNAPPY:
        parts = [_XERIAL_HEADER]
        for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
            parts += (len(block).to_bytes(4), block)
        return b"".join(parts)
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level=level))
    if codec is Compression.LZ4:
        # The library links blocks by default, which Kafka's Java reader refuses.
        compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    # Level 3 is the default of zstd and of Kafka. The library's default, 11, is much slower.
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))
