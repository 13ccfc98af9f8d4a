"""The checks of the records in a produced batch: the answers of Kafka 4.3.1 to the same bytes.

Rules: [data-plane/repeated-partitions], [data-plane/transactional-batches],
[record-batch/record-check].
"""

import gzip
import struct

import pytest

from coterie.protocol import checksum
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.record_batch_layout import HEADER_BYTES, position_of
from coterie.protocol.records import Compression
from coterie.server.transactions.use import TransactionUses
from tests.unit.server.manual import Client, make_broker, open_log
from tests.unit.server.manual_loop import START_MS
from tests.unit.server.produced import batch, damaged, produce, produce_request, values_of

COUNT = position_of("record_count")
LAST_DELTA = position_of("last_offset_delta")
ATTRIBUTES = position_of("attributes")
BASE_TIMESTAMP = position_of("base_timestamp_ms")

GZIP = Compression.GZIP


@pytest.fixture
def client() -> Client:
    """A client of a broker with topics of every kind."""
    client = Client(make_broker())
    # A coordinator that knows no transactional id.
    client.broker.transactions = TransactionUses()
    controller = client.broker.controller
    controller.create("t", 1, {})
    controller.create("l", 1, {"message.timestamp.type": "LogAppendTime"})
    controller.create("z", 1, {"compression.type": "zstd"})
    controller.create(
        "lz", 1, {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"}
    )
    controller.create("c", 1, {"cleanup.policy": "compact"})
    return client


def claims(data: bytes, count: int) -> bytes:
    """Return a batch whose header claims another number of records."""
    return damaged(damaged(data, COUNT, ">i", count), LAST_DELTA, ">i", count - 1)


def of_body(body: bytes, compression: int = 0, base_ms: int = START_MS) -> bytes:
    """Return a batch of one record with these bytes behind the header."""
    out = bytearray(batch(b"v")[:HEADER_BYTES] + body)
    struct.pack_into(">i", out, 8, len(out) - 12)
    struct.pack_into(">h", out, ATTRIBUTES, compression)
    struct.pack_into(">q", out, BASE_TIMESTAMP, base_ms)
    struct.pack_into(">I", out, 17, checksum.crc32c(bytes(out[21:])))
    return bytes(out)


def record(
    timestamp: bytes = b"\0",
    offset: bytes = b"\0",
    key: bytes = b"\2k",
    value: bytes = b"\2v",
    headers: bytes = b"\0",
    size: bytes | None = None,
) -> bytes:
    """Return one record, made of the bytes of its parts."""
    content = b"\0" + timestamp + offset + key + value + headers
    return (bytes([len(content) * 2]) if size is None else size) + content


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (record(), 0),
        (record(size=b"\x0c"), 87),
        (record(size=b"\x12"), 87),
        (record(size=b"\x01"), 87),
        (record(size=b"\x90\x00"), 0),
        (record(key=b"\x01"), 0),
        (record(key=b"\x20k"), 87),
        (record(key=b"\x82\x80\x00k"), 0),
        (record(value=b"\x01"), 0),
        (record(value=b"\x82\x80\x80\x00v"), 0),
        (record(value=b"\x82\x80\x80\x80\x80\x00v"), 87),
        (record(headers=b"\1"), 87),
        (record(headers=b"\4"), 87),
        (record(headers=b"\2\2h\2v"), 0),
        (record(headers=b"\4\2h\2v\0\1"), 0),
        (record(headers=b"\2\1\2v"), 87),
        (record(headers=b"\2\2h\1"), 0),
        (record(headers=b"\2\2\xff\2v"), 0),
        (record(headers=b"\2\2h\x20v"), 87),
        (record(headers=b"\2\2h\3"), 87),
        (record(headers=b"\0z"), 87),
        (record() + b"zz", 87),
        (record(timestamp=b"\x80" * 9 + b"\0"), 0),
        (record(timestamp=b"\x80" * 10 + b"\0"), 87),
        (record(offset=b"\x0a"), 0),
        (record(offset=b"\x80\x80\x80\x00"), 0),
        (record(offset=b"\x80" * 5 + b"\0"), 87),
        (b"", 87),
        # Ours: Kafka stores these, and most clients cannot read them.
        (record(key=b"\3"), 87),
        (record(value=b"\3"), 87),
    ],
)
@pytest.mark.parametrize("compression", [0, 1], ids=["plain", "gzip"])
def test_structure_of_a_record(client: Client, body: bytes, error: int, compression: int) -> None:
    data = of_body(gzip.compress(body) if compression else body, compression)
    answer = produce(client, data)
    assert (answer.error_code, answer.log_start_offset) == (error, 0)


def test_timestamps_beyond_int64(client: Client) -> None:
    # Java's arithmetic wraps around.
    client.broker.controller.create("w", 1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    for topic in ("t", "w"):
        answer = produce(client, of_body(record(b"\2"), base_ms=2**63 - 1), topic=topic)
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        (error,) = answer.record_errors
        assert f"Timestamp {-(2**63)} of message with offset 0" in error.batch_index_error_message


@pytest.mark.parametrize(
    ("producer", "transactional_id", "error"),
    [(-1, None, 53), (-1, "x", 0), (5, None, 53), (5, "x", 49)],
)
def test_transactional_batches(
    client: Client, producer: int, transactional_id: str | None, error: int
) -> None:
    client.broker.transaction_runtime.create_topic()
    client.loop.turn()
    # Without a producer id the bit has no meaning, and the batch is appended.
    data = batch(b"a", producer=(producer, 0, 0), transactional=True)
    request = produce_request(data)
    request.transactional_id = transactional_id
    (answer,) = client.call(request, 9).responses[0].partition_responses
    assert answer.error_code == error
    assert open_log(client.broker, "t").last_stable_offset == (0 if error else 1)


def test_transactional_batch_of_an_older_epoch_is_fenced(client: Client) -> None:
    assert not produce(client, batch(b"a", producer=(5, 3, 0))).error_code
    request = produce_request(batch(b"b", producer=(5, 2, 0), transactional=True))
    request.transactional_id = "x"
    (answer,) = client.call(request, 9).responses[0].partition_responses
    assert (answer.error_code, answer.log_start_offset) == (47, -1)


@pytest.mark.parametrize(
    ("transactional_id", "producers", "errors"),
    [
        (None, (5, None), [53, 53]),
        ("x", (5, 6), [49, 49]),
        ("x", (5, -1), [49, 0]),
        ("x", (-1, -1), [0, 0]),
    ],
)
def test_whole_request_is_refused_for_its_transactional_batches(
    client: Client,
    transactional_id: str | None,
    producers: tuple[int | None, ...],
    errors: list[int],
) -> None:
    parts = [
        ProduceRequestPartition(
            index=index,
            records=batch(b"a")
            if producer is None
            else batch(b"a", producer=(producer, 0, 0), transactional=True),
        )
        for index, producer in enumerate(producers)
    ]
    client.broker.controller.create("u", 2, {})
    client.broker.transaction_runtime.create_topic()
    client.loop.turn()
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        transactional_id=transactional_id,
        topic_data=[ProduceRequestTopic(name="u", partition_data=parts)],
    )
    answers = client.call(request, 9).responses[0].partition_responses
    assert [each.error_code for each in answers] == errors
    text = "Transactional records contained more than one producer ID"
    texts = [text if errors == [49, 49] else None] * 2
    assert [each.error_message for each in answers] == texts
    for index, error in enumerate(errors):
        end = open_log(client.broker, "u", index).log_end_offset
        assert end == (0 if error else 1)


def test_transactional_batch_with_an_impossible_length_is_refused_by_itself(
    client: Client,
) -> None:
    bad = damaged(batch(b"a", producer=(5, 0, 0), transactional=True), 8, ">i", -2)
    parts = [
        ProduceRequestPartition(index=0, records=bad),
        ProduceRequestPartition(index=1, records=batch(b"a")),
    ]
    client.broker.controller.create("u", 2, {})
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[ProduceRequestTopic(name="u", partition_data=parts)],
    )
    answers = client.call(request, 9).responses[0].partition_responses
    assert [each.error_code for each in answers] == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]


def test_last_entry_of_a_partition_counts(client: Client) -> None:
    client.broker.controller.create("u", 2, {})
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            ProduceRequestTopic(
                name=name,
                partition_data=[
                    ProduceRequestPartition(index=index, records=records)
                    for index, records in entries
                ],
            )
            for name, entries in (
                ("u", [(0, batch(b"a")), (1, batch(b"b")), (0, batch(b"c"))]),
                ("t", [(0, batch(b"d"))]),
                ("u", [(1, batch(b"e", b"f")), (1, b"")]),
            )
        ],
    )
    answers = client.call(request, 9).responses
    assert [
        (each.name, one.index, one.error_code, one.base_offset)
        for each in answers
        for one in each.partition_responses
    ] == [("u", 0, 0, 0), ("u", 1, 87, -1), ("t", 0, 0, 0)]
    assert values_of(open_log(client.broker, "u", 0).read(0, 1 << 20)) == [b"c"]
    assert open_log(client.broker, "u", 1).log_end_offset == 0
