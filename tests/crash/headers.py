"""Batches with wrong headers: what a broker stores, every consumer can read.

Each batch is changed in one field of its header, one bit at a time and to a few special values,
with a checksum that is right again. It is then produced. The broker either refuses it, and the log
stays as it was, or stores it. Then a consumer that reads from the start finds records without gaps,
the log has the timestamp that ListOffsets looks for, and the next batch follows.
"""

import dataclasses
import math
import struct
import time
from collections import Counter
from collections.abc import Iterator

from coterie.protocol import checksum
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.protocol.records import Compression, decode_records, iterate_batches
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.manual_loop import START_MS
from tests.unit.server.produced import batch, fetch_request, produce

# The position of each field behind the checksum's, its format, and values to try besides flipped
# bits. The fields before it are set by the log.
_FIELDS = {
    "attributes": (21, ">h", (0, 1, 4, 7, 8, 16, 32, 64, -1)),
    "last offset delta": (23, ">i", (-1, 0, 1, 2, 3, 1000, 0x7FFFFFFF)),
    "base timestamp": (27, ">q", (-1, 0, START_MS - 1, START_MS + 1, 1 << 62)),
    "max timestamp": (35, ">q", (-1, 0, START_MS - 1, START_MS + 1, START_MS + 10**9, 1 << 62)),
    "producer id": (43, ">q", (-2, -1, 0, 1 << 62)),
    "producer epoch": (51, ">h", (-2, -1, 0, 1)),
    "base sequence": (53, ">i", (-2, -1, 0, 1, 0x7FFFFFFF)),
    "record count": (57, ">i", (-1, 0, 1, 2, 3, 4, 1000, 0x7FFFFFFF)),
}
_MAX_TIMESTAMP = -3


@dataclasses.dataclass
class HeaderResult:
    """The figures, and the failures: one line each.

    Attributes:
        untried: how many batches were left out for lack of time.
    """

    outcomes: Counter[str] = dataclasses.field(default_factory=Counter)
    failures: list[str] = dataclasses.field(default_factory=list)
    untried: int = 0

    def table(self) -> list[str]:
        """Return the report's lines."""
        rows = sorted(self.outcomes.items())
        return [
            *self.failures,
            *(f"{f'wrong headers: {outcome}':<28}{number:>10,}" for outcome, number in rows),
        ]


def _batches() -> Iterator[tuple[str, bytes]]:
    """Yield batches of every form."""
    for compression in Compression:
        for count in (1, 3):
            for producer in ((-1, -1, -1), (7, 0, 0)):
                values = [b"value %d" % number for number in range(count)]
                name = f"{compression.name}, {count} records, producer {producer[0]}"
                yield name, batch(*values, compression=compression, producer=producer)


def _changed(data: bytes) -> Iterator[tuple[str, bytes]]:
    for field, (position, fmt, values) in _FIELDS.items():
        size = struct.calcsize(fmt)
        raw = data[position : position + size]
        changes = {struct.pack(fmt, value) for value in values}
        for bit in range(8 * size):
            flipped = bytearray(raw)
            flipped[bit >> 3] ^= 1 << (bit & 7)
            changes.add(bytes(flipped))
        for change in sorted(changes - {raw}):
            changed = bytearray(data)
            changed[position : position + size] = change
            crc = checksum.crc32c(bytes(changed[21:]))
            changed[17:21] = crc.to_bytes(4)
            (value,) = struct.unpack(fmt, change)
            yield f"{field} is {value}", bytes(changed)


def try_headers(sample: int = 1, until_s: float = math.inf) -> HeaderResult:
    """Produce every changed batch, or one in `sample` of them.

    Args:
        sample: one in this many is produced.
        until_s: none is produced later, on the monotonic clock.
    """
    done = HeaderResult()
    number = 0
    for form, data in _batches():
        client: Client | None = None
        for change, changed in _changed(data):
            number += 1
            if number % sample:
                continue
            if time.monotonic() > until_s:
                done.untried += 1
                continue
            if client is None:
                client = Client(make_broker())
                client.broker.controller.create("t", 1, {})
            answer = produce(client, changed)
            try:
                if answer.error_code:
                    done.outcomes["refused"] += 1
                    continue
                done.outcomes["stored"] += 1
                _check_readable(client, answer.base_offset)
            except (AssertionError, MalformedFrame) as error:
                done.outcomes["WRONG"] += 1
                done.failures.append(f"wrong header: {form}: {change}: {error}")
            # A stored batch must not influence the next one.
            client = None
    return done


def _check_readable(client: Client, base_offset: int) -> None:
    """Read the log as a consumer does, and look for its greatest timestamp."""
    assert base_offset >= 0, "the batch has an offset"
    assert produce(client, batch(b"next")).error_code == 0, "the next batch is stored"
    offset, end, greatest_ms = 0, 1, -1
    while offset < end:
        (found,) = client.call(fetch_request((0, offset)), 12).responses[0].partitions
        assert found.error_code == 0, "a consumer can read"
        assert found.records, f"a consumer gets no records at offset {offset}"
        for position, header in iterate_batches(found.records):
            for record in decode_records(found.records, header, position):
                assert record.offset == offset, f"offset {record.offset} and not {offset}"
                offset += 1
                greatest_ms = max(greatest_ms, record.timestamp_ms)
            assert offset == header.next_offset, "a batch has all the records that it counts"
        end = found.high_watermark
    assert offset == end, "a consumer reaches the end"
    asked = ListOffsetsRequestPartition(partition_index=0, timestamp=_MAX_TIMESTAMP)
    topics = [ListOffsetsRequestTopic(name="t", partitions=[asked])]
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
    (listed,) = answer.topics[0].partitions
    assert listed.timestamp == greatest_ms, (
        f"the greatest timestamp is {greatest_ms}, and {listed.timestamp} is listed"
    )
