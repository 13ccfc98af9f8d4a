"""The four codecs of record batches, bounded: a few bytes never become more than they may.

gzip, LZ4 frames and zstd frames as the libraries write them; snappy either raw or in the framing
of the Java clients (xerial: a magic, two versions, then blocks with a 4-byte length). The broker
passes compressed batches through; what opens them are reads by timestamp and our own tools.
"""

from types import ModuleType

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.record_batch import Compression

# No batch opens to more than this. ProducerState bound a batch by its uncompressed size (Java's
# max.request.size, 1 MiB by default, tens of MiB where people raise it).
MAX_DECOMPRESSED_BYTES = 64 << 20
# Up to here any ratio is fine: a legal batch of repetitive records shrinks by factors of thousands.
# With the copy that is handed out it takes the 8 MiB that the design grants a frame of any size.
FREE_DECOMPRESSED_BYTES = 4 << 20
# Beyond that, the ratio that text and JSON do not reach; CVE-2026-111073 was an unchecked one.
MAX_RATIO = 100

# The first guess of what comes out; most batches shrink by less than 8.
_FIRST_GUESS_RATIO = 8
_FIRST_GUESS_BYTES = 64 << 10
_GUESS_GROWTH = 16

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
# The block size of snappy-java's output stream.
_XERIAL_BLOCK_BYTES = 32 << 10


def decompress(codec: int, data: bytes) -> bytes:
    """The uncompressed bytes of `data`.

    Raises:
        MalformedFrame: the codec is unknown, the data damaged, or more than the limits come out.
    """
    if codec == Compression.NONE:
        return data
    if codec > Compression.ZSTD:
        raise MalformedFrame(f"compression {codec} is unknown")
    if not data:
        raise MalformedFrame("no bytes where compressed records should be")
    allowed = max(FREE_DECOMPRESSED_BYTES, len(data) * MAX_RATIO)
    limit = min(MAX_DECOMPRESSED_BYTES, allowed)
    # Imported here because most servers never open a compressed batch.
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
    # The library fills a buffer of ours and fails where it is too small, so a bomb costs the limit
    # and no more. Too small and damaged look alike: the last try tells.
    size = min(limit, max(_FIRST_GUESS_BYTES, len(data) * _FIRST_GUESS_RATIO))
    while True:
        buffer = bytearray(size)
        try:
            filled = library.decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            # Before the next one is made: two together would exceed the limit.
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
    # The block begins with what it claims to hold: refuse before anything is allocated.
    size = snappy.decompress_raw_len(block)
    if size > limit:
        raise MalformedFrame(f"a snappy block claims {size} bytes where {limit} are allowed")
    if size == 0:
        # The library looks no further; nothing is one byte, the length.
        if len(block) != 1:
            raise MalformedFrame(f"a snappy block of {len(block)} bytes claims to hold nothing")
        return b""
    buffer = bytearray(size)
    filled = snappy.decompress_raw_into(block, buffer)
    return bytes(memoryview(buffer)[:filled])


def compress(codec: Compression, data: bytes) -> bytes:
    """`data` compressed the way the Java producer does it, snappy in xerial framing."""
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
        return bytes(cramjam.gzip.compress(data))
    if codec is Compression.LZ4:
        # Kafka's Java reader refuses frames whose blocks refer to each other, the library's
        # default.
        compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    # Level 3 is zstd's own default and Kafka's; the library's is 11, slow for nothing.
    return bytes(cramjam.zstd.compress(data, level=3))
