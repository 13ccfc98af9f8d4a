"""Produce 0-2 and Fetch 0-3: message sets. The answers are those of Kafka 2.8.2."""

import struct
import zlib
from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import Compression, Record, encode_records
from coterie.server.releases import Release
from tests.message_sets import TIMESTAMP_MS, gzipped, message, opened, read
from tests.unit.server.manual import Client, make_broker, open_log
from tests.unit.server.manual_loop import START_MS
from tests.unit.server.produced import (
    batch,
    damaged,
    fetch_request,
    produce,
    produce_request,
    values_of,
)

NO_OFFSET = -1
UNKNOWN, CORRUPT, INVALID = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
)


@pytest.fixture
def client() -> Client:
    broker = make_broker()
    broker.pretend(Release.named("2.8"))
    broker.controller.create("t", 2, {})
    return Client(broker)


def with_wrong_lengths(size: int, content: bytes) -> bytes:
    """Encode a message whose value claims another size than it has."""
    body = b"\1\0" + struct.pack(">qii", TIMESTAMP_MS, -1, size) + content
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def fetch(client: Client, offset: int, version: int, **fields: Any) -> Any:
    """Fetch from partition 0 of the topic."""
    client.send(fetch_request((0, offset), **fields), version)
    for _ in range(10):
        client.loop.turn()
    ((_, answer),) = client.answers()
    return answer.responses[0].partitions[0]


class TestProduce:
    @pytest.mark.parametrize("version", [0, 1, 2])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_messages_become_one_batch(self, client: Client, version: int, magic: int) -> None:
        data = b"".join(message(7, value, b"k", magic=magic) for value in (b"a", b"b", None))
        answer = produce(client, data, version)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert produce(client, data, version).base_offset == 3
        stored = open_log(client.broker, "t", 0).read(0, 1 << 20)
        assert values_of(stored) == [b"a", b"b", None] * 2
        assert open_log(client.broker, "t", 0).max_timestamp()[0] == (TIMESTAMP_MS if magic else -1)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_compressed_message_becomes_a_batch_of_its_codec(
        self, client: Client, magic: int
    ) -> None:
        inner = message(100, b"a", magic=magic) + message(101, b"b", magic=magic)
        assert produce(client, gzipped(inner, 101, magic=magic), 2).base_offset == 0
        stored = open_log(client.broker, "t", 0).read(0, 1 << 20)
        assert values_of(stored) == [b"a", b"b"]
        assert stored[22] == Compression.GZIP

    def test_batch_in_a_request_for_message_sets_is_stored(self, client: Client) -> None:
        assert produce(client, batch(b"a"), 2).base_offset == 0

    def test_topic_with_append_time_answers_with_it(self, client: Client) -> None:
        client.broker.controller.create("l", 1, {"message.timestamp.type": "LogAppendTime"})
        answer = produce(client, message(0, b"a"), 2, topic="l")
        assert answer.log_append_time_ms == START_MS
        (stored,) = read(fetch_of(client, "l"))
        assert (stored.attributes, stored.timestamp_ms) == (8, START_MS)

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            pytest.param(b"", ErrorCode.NONE, id="nothing"),
            pytest.param(message(0, b"a")[:8], ErrorCode.NONE, id="less than a head"),
            pytest.param(message(0, b"a")[:-1], ErrorCode.NONE, id="an incomplete message"),
            pytest.param(None, UNKNOWN, id="null"),
            pytest.param(gzipped(message(0, b"a")) * 2, INVALID, id="two compressed ones"),
            pytest.param(
                message(0, b"p") + gzipped(message(0, b"a")),
                INVALID,
                id="a compressed one behind another",
            ),
            pytest.param(message(0, b"a", magic=0) + message(1, b"b"), INVALID, id="two magics"),
            pytest.param(message(0, b"a", crc=1), CORRUPT, id="a wrong crc"),
            pytest.param(
                message(0, b"a") + message(1, b"b", crc=1),
                CORRUPT,
                id="a wrong crc behind a right one",
            ),
            pytest.param(gzipped(message(0, b"a", crc=3)), CORRUPT, id="a wrong inner crc"),
            pytest.param(gzipped(message(0, b"a", magic=0)), INVALID, id="another inner magic"),
            pytest.param(gzipped(gzipped(message(0, b"a"))), INVALID, id="compressed twice"),
            pytest.param(gzipped(b""), INVALID, id="an empty compressed one"),
            pytest.param(message(0, None, attributes=1), INVALID, id="compressed null"),
            pytest.param(message(0, b"no gzip", attributes=1), UNKNOWN, id="no gzip"),
            pytest.param(message(0, b"x", attributes=4), INVALID, id="zstd"),
            pytest.param(message(0, b"x", attributes=5), UNKNOWN, id="an unknown codec"),
            pytest.param(
                message(0, b"x", attributes=8), ErrorCode.INVALID_TIMESTAMP, id="append time"
            ),
            pytest.param(struct.pack(">qi", 0, 13) + bytes(13), CORRUPT, id="a length below all"),
            pytest.param(struct.pack(">qi", 0, -5) + bytes(13), CORRUPT, id="a negative length"),
            pytest.param(message(0, b"x", magic=3), CORRUPT, id="magic 3"),
            pytest.param(message(0, b"x", timestamp_ms=-5), UNKNOWN, id="a negative timestamp"),
            pytest.param(
                with_wrong_lengths(50, b"abc"), UNKNOWN, id="a value longer than its message"
            ),
            pytest.param(message(0, b"x" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
            pytest.param(
                message(0, b"x" * 600_000) * 2, ErrorCode.MESSAGE_TOO_LARGE, id="too large together"
            ),
        ],
    )
    def test_refused(self, client: Client, data: bytes | None, error: ErrorCode) -> None:
        answer = produce(client, data, 2)
        assert (answer.error_code, answer.base_offset) == (error, NO_OFFSET)
        assert open_log(client.broker, "t", 0).log_end_offset == 0

    @pytest.mark.parametrize(
        ("data", "values"),
        [
            pytest.param(
                message(0, b"a") + message(1, b"b")[:20], [b"a"], id="an incomplete one at the end"
            ),
            pytest.param(
                gzipped(message(0, b"a") + message(1, b"b")[:-3]),
                [b"a"],
                id="an incomplete inner one",
            ),
            pytest.param(gzipped(message(0, b"a", attributes=8)), [b"a"], id="inner append time"),
            pytest.param(with_wrong_lengths(1, b"abc"), [b"a"], id="bytes behind the value"),
        ],
    )
    def test_accepted_as_kafka_does(self, client: Client, data: bytes, values: list[bytes]) -> None:
        assert produce(client, data, 2).error_code == 0
        assert values_of(open_log(client.broker, "t", 0).read(0, 1 << 20)) == values

    def test_message_set_is_refused_from_version_3_on(self, client: Client) -> None:
        assert produce(client, message(0, b"a"), 3).error_code == INVALID

    def test_acks_0(self, client: Client) -> None:
        client.send(produce_request(message(0, b"a"), acks=0), 0)
        assert open_log(client.broker, "t", 0).log_end_offset == 1
        client.send(produce_request(message(0, b"a", crc=1), acks=0), 0)
        assert client.transport.closed


def fetch_of(client: Client, topic: str) -> bytes:
    data: bytes = fetch(client, 0, 2, topic=topic).records
    return data


class TestFetch:
    @pytest.mark.parametrize("version", [0, 1, 2, 3])
    def test_batch_becomes_messages_from_the_offset_on(self, client: Client, version: int) -> None:
        headers = (("h", b"1"),)
        records = [
            Record(0, START_MS, b"k", b"a", headers),
            Record(1, START_MS + 1, None, b"b"),
            Record(2, START_MS + 2, b"k", None),
        ]
        assert produce(client, encode_records(records), 9).error_code == 0
        found = fetch(client, 1, version)
        assert (found.error_code, found.high_watermark) == (0, 3)
        messages = read(found.records)
        magic = 1 if version >= 2 else 0
        times = [START_MS + 1, START_MS + 2] if magic else [None, None]
        assert [each.timestamp_ms for each in messages] == times
        assert [each[:3] for each in messages] == [(1, magic, 0), (2, magic, 0)]
        assert [each[4:] for each in messages] == [(None, b"b"), (b"k", None)]

    @pytest.mark.parametrize("version", [1, 2])
    def test_compressed_batch_becomes_one_message_whatever_the_offset_is(
        self, client: Client, version: int
    ) -> None:
        produce(client, batch(b"before"))
        produce(client, batch(b"a", b"b", b"c", compression=Compression.GZIP))
        (wrapper,) = read(fetch(client, 2, version).records)
        assert (wrapper.offset, wrapper.key, wrapper.attributes) == (3, None, 1)
        inner = opened(wrapper)
        assert [(each.offset, each.value) for each in inner] == [(1, b"a"), (2, b"b"), (3, b"c")]
        assert wrapper.timestamp_ms == (START_MS if version == 2 else None)

    @pytest.mark.parametrize("compression", [Compression.SNAPPY, Compression.LZ4])
    @pytest.mark.parametrize("version", [1, 2])
    def test_other_codecs_survive_a_round_trip(
        self, client: Client, compression: Compression, version: int
    ) -> None:
        produce(client, batch(b"a" * 50, b"b" * 50, compression=compression))
        data = fetch(client, 0, version).records
        assert produce(client, data, 2, partition=1).error_code == 0
        stored = open_log(client.broker, "t", 1).read(0, 1 << 20)
        assert values_of(stored) == [b"a" * 50, b"b" * 50]

    def test_zstd_has_an_error_where_the_fetch_begins(self, client: Client) -> None:
        produce(client, batch(b"a"))
        produce(client, batch(b"b", compression=Compression.ZSTD))
        (first,) = read(fetch(client, 0, 3).records)
        assert first.value == b"a"
        found = fetch(client, 1, 3)
        assert (found.error_code, found.records, found.high_watermark) == (
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            b"",
            -1,
        )

    def test_control_batches_are_left_out(self, client: Client) -> None:
        produce(client, batch(b"a"))
        marker = damaged(batch(b"\0\0\0\0\0\0", key=b"\0\0\0\1"), 21, ">h", 0x30)
        open_log(client.broker, "t", 0).append(marker)
        produce(client, batch(b"b"))
        messages = read(fetch(client, 0, 3).records)
        assert [(each.offset, each.value) for each in messages] == [(0, b"a"), (2, b"b")]

    @pytest.mark.parametrize(("version", "size"), [(0, 30), (2, 30), (3, None)])
    def test_first_batch_is_cut_before_version_3(
        self, client: Client, version: int, size: int | None
    ) -> None:
        produce(client, batch(b"a" * 100))
        stored = open_log(client.broker, "t", 0).read(0, 1 << 20)
        data = fetch(client, 0, version, partition_max_bytes=30).records
        if size is None:
            assert len(read(data)) == 1
        else:
            assert data == stored[:size]

    def test_wait_for_an_append(self, client: Client) -> None:
        reader = Client(client.broker)
        reader.send(fetch_request((0, 0), max_wait_ms=10_000), 2)
        for _ in range(5):
            client.loop.turn()
        assert reader.answers() == []
        produce(client, message(0, b"a"), 2)
        for _ in range(10):
            client.loop.turn()
        ((_, answer),) = reader.answers()
        assert [each.value for each in read(answer.responses[0].partitions[0].records)] == [b"a"]

    def test_errors(self, client: Client) -> None:
        assert fetch(client, 5, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        unknown = fetch(client, 0, 0, topic="nope")
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
