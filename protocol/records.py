"""Record batches: the one import for everybody who reads or writes them.

What a batch is stands in `record_batch.py`, how records are written in `record_writer.py`, how they
are read in `record_reader.py`; `record_legacy.py` reads what Kafka wrote before 0.11, and
`compression.py` holds the four codecs and their limits.
"""

from coterie.protocol.compression import compress, decompress
from coterie.protocol.record_batch import (
    BatchHeader,
    Compression,
    InvalidRecord,
    Record,
    check_crc,
    iterate_batches,
    read_header,
    stamp,
    stamp_append_time,
    validate_batches,
)
from coterie.protocol.record_reader import (
    Marker,
    decode_pairs,
    decode_records,
    iterate_pairs,
    read_marker,
    record_timestamps,
)
from coterie.protocol.record_writer import encode_batch, encode_marker, encode_records

__all__ = [
    "BatchHeader",
    "Compression",
    "InvalidRecord",
    "Marker",
    "Record",
    "check_crc",
    "compress",
    "decode_pairs",
    "decode_records",
    "decompress",
    "encode_batch",
    "encode_marker",
    "encode_records",
    "iterate_batches",
    "iterate_pairs",
    "read_header",
    "read_marker",
    "record_timestamps",
    "stamp",
    "stamp_append_time",
    "validate_batches",
]
