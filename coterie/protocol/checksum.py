"""CRC-32C, the checksum of record batches [record-batch/checksum].

The function takes `bytes` only, so parts of a buffer are copied first. Up to a few KiB the copy
takes no longer than a memoryview.
"""

from collections.abc import Callable

from google_crc32c import value

crc32c: Callable[[bytes], int] = value
