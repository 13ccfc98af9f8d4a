"""Message sets: what is read of them, and large ones. Most is in `tests/golden/answers/2.8.2`.

Rules: [data-plane/message-sets], [data-plane/fetched-messages].
"""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import Compression, Record, encode_records
from coterie.server.releases import Release
from tests.message_sets import message, read
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


@pytest.fixture
def client() -> Client:
    broker = make_broker()
    broker.pretend(Release.named("2.8"))
    broker.controller.create("t", 2, {})
    return Client(broker)


def fetch(client: Client, offset: int, version: int, **fields: Any) -> Any:
    """Fetch from partition 0 of the topic."""
    client.send(fetch_request((0, offset), **fields), version)
    for _ in range(10):
        client.loop.turn()
    ((_, answer),) = client.answers()
    return answer.responses[0].partitions[0]


class TestProduce:
    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (None, ErrorCode.UNKNOWN_SERVER_ERROR),
            (message(0, b"x" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE),
            (message(0, b"x" * 600_000) * 2, ErrorCode.MESSAGE_TOO_LARGE),
        ],
        ids=["null", "too large", "too large together"],
    )
    def test_refused(self, client: Client, data: bytes | None, error: ErrorCode) -> None:
        assert produce(client, data, 2).error_code == error
        assert open_log(client.broker, "t", 0).log_end_offset == 0

    def test_messages_of_magic_0_have_no_time(self, client: Client) -> None:
        assert produce(client, message(7, b"a", b"k", magic=0), 0).error_code == 0
        assert open_log(client.broker, "t", 0).max_timestamp()[0] == -1

    def test_acks_0(self, client: Client) -> None:
        client.send(produce_request(message(0, b"a"), acks=0), 0)
        assert open_log(client.broker, "t", 0).log_end_offset == 1
        client.send(produce_request(message(0, b"a", crc=1), acks=0), 0)
        assert client.transport.closed


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
