"""Record batches: the one import for code that reads or writes them.

record_batch_layout.py   the layout of a header
record_batch.py          headers, framing, checksums
record_reader.py         the records of a batch
control_records.py       the markers that end transactions
record_writer.py         new batches, and batches that compaction rewrites
record_legacy.py         messages of magic 0 and 1
raw_records.py           where the parts of records are, for readers that make no records
record_check.py          the check of records that a producer sends
layouts.py               runs of batches that look alike, for loading and compaction
compression.py           the codecs and their limits
"""

from coterie.protocol.compression import Compression, compress, decompress
from coterie.protocol.control_records import Marker, read_marker
from coterie.protocol.record_batch import (
    BatchHeader,
    Record,
    batch_extents,
    check_crc,
    iterate_batches,
    read_header,
    stamp_timestamp,
)
from coterie.protocol.record_reader import decode_pairs, decode_records, record_timestamps
from coterie.protocol.record_writer import encode_batch, encode_records

__all__ = [
    "BatchHeader",
    "Compression",
    "Marker",
    "Record",
    "batch_extents",
    "check_crc",
    "compress",
    "decode_pairs",
    "decode_records",
    "decompress",
    "encode_batch",
    "encode_records",
    "iterate_batches",
    "read_header",
    "read_marker",
    "record_timestamps",
    "stamp_timestamp",
]
