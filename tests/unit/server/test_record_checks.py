"""The checks of the records in a produced batch: the answers of Kafka 4.3.1 to the same bytes."""

import gzip
import struct
from typing import Any

import pytest

from coterie.protocol import checksum
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.record_batch_layout import HEADER_BYTES, position_of
from coterie.protocol.records import Compression, read_header
from coterie.server.transactions.use import TransactionUses
from tests.unit.server.manual import Client, make_broker, open_log
from tests.unit.server.manual_loop import START_MS
from tests.unit.server.produced import batch, damaged, produce, produce_request, values_of

COUNT = position_of("record_count")
LAST_DELTA = position_of("last_offset_delta")
ATTRIBUTES = position_of("attributes")
MAX_TIMESTAMP = position_of("max_timestamp_ms")
BASE_TIMESTAMP = position_of("base_timestamp_ms")

REJECTED = "One or more records have been rejected due to invalid timestamp"
NO_LOG_APPEND_TIME = "Producer should not set timestamp type to LogAppendTime."
LOG_APPEND_TIME = 8
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


def with_max(data: bytes, timestamp_ms: int) -> bytes:
    """Return a batch whose header claims another maximum timestamp."""
    return damaged(data, MAX_TIMESTAMP, ">q", timestamp_ms)


def with_attributes(data: bytes, attributes: int) -> bytes:
    """Return a batch with other attributes."""
    return damaged(data, ATTRIBUTES, ">h", attributes)


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


def stored(client: Client, topic: str) -> Any:
    """Return the header of the last batch of a topic."""
    log = open_log(client.broker, topic)
    return read_header(log.read(log.log_end_offset - 1, 1 << 20))


@pytest.mark.parametrize("codec", [Compression.NONE, GZIP, Compression.ZSTD])
@pytest.mark.parametrize(("records", "claimed"), [(1, 2), (2, 1), (3, 2), (100, 101), (101, 100)])
def test_header_with_a_wrong_number_of_records(
    client: Client, codec: Compression, records: int, claimed: int
) -> None:
    data = claims(batch(*[b"value"] * records, compression=codec), claimed)
    for topic in ("t", "z", "l", "c"):
        answer = produce(client, data, topic=topic)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        assert (answer.log_start_offset, answer.error_message) == (0, None)
        assert open_log(client.broker, topic).log_end_offset == 0


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


def test_undecodable_body(client: Client) -> None:
    data = of_body(gzip.compress(record())[:-4], 1)
    assert produce(client, data).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", [Compression.NONE, GZIP])
@pytest.mark.parametrize("claimed_ms", [-1, START_MS - 5000, START_MS + 50_000_000])
@pytest.mark.parametrize("topic", ["t", "z", "l", "lz", "c"])
def test_maximum_timestamp_is_that_of_the_records(
    client: Client, codec: Compression, claimed_ms: int, topic: str
) -> None:
    data = with_max(batch(b"a", b"b", compression=codec), claimed_ms)
    client.loop.advance(777)
    assert produce(client, data, topic=topic).error_code == 0
    header = stored(client, topic)
    if "l" in topic:
        assert (header.log_append_time, header.max_timestamp_ms) == (True, START_MS + 777)
    else:
        assert (header.log_append_time, header.max_timestamp_ms) == (False, START_MS)
        assert open_log(client.broker, topic).max_timestamp() == (START_MS, 0)
    assert header.compression == (Compression.ZSTD if "z" in topic else codec)
    assert open_log(client.broker, topic).offset_for_timestamp(START_MS) is not None


@pytest.mark.parametrize(
    ("data", "attributes", "max_ms"),
    [
        (with_attributes(batch(b"a"), 0x400), 0x400, START_MS),
        (with_max(with_attributes(batch(b"a"), 0x400), 5), 0, START_MS),
        (with_max(with_attributes(batch(b"a"), 0x40), 5), 0x40, START_MS),
        (with_attributes(batch(b"a"), LOG_APPEND_TIME), 0, START_MS),
        (with_max(with_attributes(batch(b"a"), LOG_APPEND_TIME), START_MS - 7), 0, START_MS - 7),
        (with_attributes(batch(b"a", compression=GZIP), LOG_APPEND_TIME | 1), 1, START_MS),
        (batch(b"a", timestamp_ms=-5), 0, -1),
    ],
)
def test_attributes_and_timestamp_that_are_stored(
    client: Client, data: bytes, attributes: int, max_ms: int
) -> None:
    assert produce(client, data).error_code == 0
    header = stored(client, "t")
    assert (header.attributes, header.max_timestamp_ms) == (attributes, max_ms)


@pytest.mark.parametrize(
    ("topic", "data", "name", "timestamp_ms"),
    [
        ("l", batch(b"a", b"b"), "DefaultRecord", START_MS),
        ("l", batch(b"a", b"b", compression=GZIP), "PartialDefaultRecord", START_MS),
        ("lz", batch(b"a", b"b"), "DefaultRecord", START_MS),
        ("t", with_max(batch(b"a", b"b"), -1), "DefaultRecord", -1),
    ],
)
def test_producer_must_not_set_the_append_time(
    client: Client, topic: str, data: bytes, name: str, timestamp_ms: int
) -> None:
    data = with_attributes(data, read_header(data).attributes | LOG_APPEND_TIME)
    answer = produce(client, data, topic=topic)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert (answer.log_start_offset, answer.error_message) == (0, REJECTED)
    assert [each.batch_index for each in answer.record_errors] == [0, 1]
    for index, each in enumerate(answer.record_errors):
        assert each.batch_index_error_message == (
            f"Invalid timestamp type in message {name}(offset={index}, timestamp={timestamp_ms},"
            f" key=1 bytes, value=1 bytes). {NO_LOG_APPEND_TIME}"
        )


def test_every_record_with_a_wrong_timestamp_is_named(client: Client) -> None:
    answer = produce(client, batch(b"a", b"b", timestamp_ms=START_MS + 9_000_000))
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_TIMESTAMP, REJECTED)
    assert [each.batch_index for each in answer.record_errors] == [0, 1]


def test_timestamps_beyond_int64(client: Client) -> None:
    # Java's arithmetic wraps around.
    client.broker.controller.create("w", 1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    for topic in ("t", "w"):
        answer = produce(client, of_body(record(b"\2"), base_ms=2**63 - 1), topic=topic)
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        (error,) = answer.record_errors
        assert f"Timestamp {-(2**63)} of message with offset 0" in error.batch_index_error_message


def test_missing_keys_are_reported_before_timestamps(client: Client) -> None:
    data = batch(b"a", b"b", b"c", b"d", key=None, timestamp_ms=START_MS + 9_000_000)
    answer = produce(client, data, topic="c")
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [0, 1, 2, 3]
    assert answer.error_message.count("batchIndex") == 3
    assert "4 record errors in total" in answer.error_message


@pytest.mark.parametrize("fill", [b"x", b"\0", b"\xff", b"\2"])
@pytest.mark.parametrize("length", [1, 5, 11, 12, 13, 16, 17, 18, 30])
def test_bytes_behind_the_batch(client: Client, length: int, fill: bytes) -> None:
    # From 12 bytes on there is a length, which is too small; from 17 bytes on a magic.
    is_refused = (length >= 12 and fill in (b"\0", b"\xff")) or (length >= 17 and fill == b"x")
    answer = produce(client, batch(b"a") + fill * length)
    error = ErrorCode.CORRUPT_MESSAGE if is_refused else ErrorCode.NONE
    assert (answer.error_code, answer.error_message) == (error, None)
    assert answer.log_start_offset == (-1 if is_refused else 0)


@pytest.mark.parametrize(
    ("records", "error", "text"),
    [
        (b"\xff" * 11, 87, None),
        (b"\xff" * 12, 2, "Record size -1 is less than the minimum record overhead (14)"),
        (b"\0" * 30, 2, "Record size 0 is less than the minimum record overhead (14)"),
        (b"x" * 16, 87, None),
        (b"x" * 17, 2, "Invalid magic found in record: 120"),
        (batch(b"a")[:8] + b"\0\0\0\x28" + batch(b"a")[12:], 2, None),
        (batch(b"a")[:40], 87, None),
        (batch(b"a") + batch(b"a")[:-1], 0, None),
        (batch(b"a") + batch(b"a"), 87, None),
    ],
)
def test_framing(client: Client, records: bytes, error: int, text: str | None) -> None:
    answer = produce(client, records)
    assert (answer.error_code, answer.error_message) == (error, text)


@pytest.mark.parametrize(
    ("fields", "records", "error"),
    [
        ({"topic": "nope"}, batch(b"a"), 3),
        ({"partition": 9}, batch(b"a"), 3),
        ({}, batch(b"a")[:-3], 87),
        ({}, batch(b"a"), 21),
        ({}, with_max(batch(b"a"), 5), 21),
    ],
)
def test_required_acks_are_checked_for_valid_batches_of_existing_partitions(
    client: Client, fields: dict[str, Any], records: bytes, error: int
) -> None:
    answer = produce(client, records, acks=2, **fields)
    assert (answer.error_code, answer.base_offset) == (error, -1)


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


def test_request_without_partitions(client: Client) -> None:
    for topics in ([], [ProduceRequestTopic(name="t", partition_data=[])]):
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)
        answer = client.call(request, 9)
        assert [each.partition_responses for each in answer.responses] == [[] for _ in topics]
