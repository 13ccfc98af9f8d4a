"""Produce: what is stored, and what is answered when. More is in `tests/golden/answers`.

Rules: [data-plane/batch-checks], [data-plane/recompression], [data-plane/required-acks],
[data-plane/duplicate-batch], [settings/small-segments], [topics/deletion].
"""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import Compression, iterate_batches
from coterie.server.logs.log_configs import cleaner_config
from coterie.storage.cleaner import clean
from coterie.storage.memory_filesystem import MemoryFile
from tests.unit.server.manual import (
    COMMIT,
    Client,
    logged,
    make_broker,
    open_log,
    restarted,
    wait_for_disk,
)
from tests.unit.server.manual_loop import START_MS
from tests.unit.server.produced import batch, produce, produce_request

DAY_MS = 24 * 3600 * 1000
ATTRIBUTES, LAST_DELTA, COUNT = 21, 23, 57


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    client.broker.controller.create("t", 2, {})
    return client


def log_of(client: Client, topic: str = "t", partition: int = 0) -> Any:
    return open_log(client.broker, topic, partition)


class TestStored:
    @pytest.mark.parametrize("compression", list(Compression))
    def test_compressed_batches_are_stored_unchanged(
        self, client: Client, compression: Compression
    ) -> None:
        data = batch(b"a" * 100, b"b" * 100, compression=compression)
        assert produce(client, data).error_code == 0
        assert log_of(client).read(0, 1 << 20)[61:] == data[61:]

    @pytest.mark.parametrize(
        ("codec", "low", "high"), [("gzip", "1", "9"), ("lz4", "1", "17"), ("zstd", "-50", "22")]
    )
    def test_levels_of_recompression(self, client: Client, codec: str, low: str, high: str) -> None:
        value = b"".join(b"%d:%x," % (number, number * number) for number in range(2_000))
        sizes = {}
        for level in (low, high):
            name = f"{codec}{level}"
            settings = {"compression.type": codec, f"compression.{codec}.level": level}
            client.broker.controller.create(name, 1, settings)
            produce(client, batch(value), topic=name)
            stored = log_of(client, name).read(0, 1 << 20)
            sizes[level] = len(stored)
            ((_, header),) = iterate_batches(stored)
            assert header.compression == Compression[codec.upper()]
        assert sizes[high] != sizes[low]

    def test_log_append_time(self, client: Client) -> None:
        client.broker.controller.create("l", 1, {"message.timestamp.type": "LogAppendTime"})
        client.loop.advance(777)
        answer = produce(client, batch(b"a", timestamp_ms=5), topic="l")
        assert answer.log_append_time_ms == START_MS + 777
        assert log_of(client, "l").max_timestamp() == (START_MS + 777, 0)


class TestRefused:
    @pytest.mark.parametrize(
        ("records", "error"),
        [
            (None, ErrorCode.INVALID_RECORD),
            (batch(b"v" * 1_048_600), ErrorCode.MESSAGE_TOO_LARGE),
        ],
        ids=["null", "too large"],
    )
    def test_invalid_batch(self, client: Client, records: bytes | None, error: ErrorCode) -> None:
        answer = produce(client, records)
        assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (error, -1, -1)
        assert log_of(client).log_end_offset == 0

    def test_timestamps_far_in_the_future(self, client: Client) -> None:
        late = START_MS + 3_600_001
        answer = produce(client, batch(b"a", timestamp_ms=late))
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        (record,) = answer.record_errors
        assert record.batch_index == 0
        assert record.batch_index_error_message == (
            f"Timestamp {late} of message with offset 0 is out of range. The timestamp should be"
            f" within [{START_MS - (2**63 - 1)}, {START_MS + 3_600_000}]"
        )
        assert "invalid timestamp" in answer.error_message
        assert produce(client, batch(b"a", timestamp_ms=late - 1)).error_code == 0
        assert produce(client, batch(b"a", timestamp_ms=-1)).error_code == 0

    def test_timestamps_after_the_machine_has_slept(self, client: Client) -> None:
        slept_ms = 8 * 3_600_000
        environment = client.broker.environment
        environment.wall_ms = lambda: environment.now_ms() + slept_ms
        latest = START_MS + slept_ms + 3_600_000
        assert produce(client, batch(b"a", timestamp_ms=START_MS + slept_ms)).error_code == 0
        assert produce(client, batch(b"a", timestamp_ms=latest)).error_code == 0
        answer = produce(client, batch(b"a", timestamp_ms=latest + 1))
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        (record,) = answer.record_errors
        assert f", {latest}]" in record.batch_index_error_message

    def test_timestamps_far_in_the_past(self, client: Client) -> None:
        client.broker.controller.create("p", 1, {"message.timestamp.before.max.ms": "1000"})
        old = batch(b"a", timestamp_ms=START_MS - 1001)
        assert produce(client, old, topic="p").error_code == ErrorCode.INVALID_TIMESTAMP
        new = batch(b"a", timestamp_ms=START_MS - 1000)
        assert produce(client, new, topic="p").error_code == 0


class TestIdempotent:
    @pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
    @pytest.mark.parametrize("age_ms", [0, 3 * DAY_MS], ids=["new", "old timestamp"])
    @pytest.mark.parametrize("deleted", [0, 1, 2])
    def test_producers_survive_a_restart(
        self, client: Client, killed: bool, age_ms: int, deleted: int
    ) -> None:
        first, last = (
            batch(b"a", producer=(7, 0, sequence), timestamp_ms=START_MS - age_ms)
            for sequence in range(2)
        )
        for data in (first, last):
            produce(client, data)
        partition = client.broker.topics.by_name["t"].partitions[0]
        client.broker.logs.delete_records(partition, deleted)
        again = Client(restarted(client.broker, killed=killed))
        answer = produce(again, last)
        assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, 1, deleted)
        assert produce(again, batch(b"b", producer=(7, 0, 2))).base_offset == 2
        assert produce(again, batch(b"b", producer=(7, 0, 9))).error_code == 45

    def test_last_five_batches_are_recognized_after_a_cleaning(self, client: Client) -> None:
        broker = client.broker
        broker.controller.create("c", 1, {"cleanup.policy": "compact"})
        sent = [batch(b"a", producer=(7, 0, sequence)) for sequence in range(6)]
        for data in sent:
            produce(client, data, topic="c")
        log = log_of(client, "c")
        log.roll()
        clean(log, 0, broker.now_ms(), cleaner_config(broker.topics.by_name["c"].config))
        answers = [produce(client, data, topic="c") for data in sent]
        assert [(each.error_code, each.base_offset) for each in answers] == [
            (45, -1), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5),
        ]  # fmt: skip


class TestAcks:
    def test_error_with_acks_0_closes_the_connection(self, client: Client) -> None:
        client.send(produce_request(batch(b"a"), topic="nope", acks=0), 9)
        assert client.transport.closed
        (line,) = logged(client.broker, "connection closed")
        assert line["error"] == "UNKNOWN_TOPIC_OR_PARTITION"

    @pytest.mark.parametrize("acks", [1, -1])
    def test_response_waits_for_the_sync(self, acks: int) -> None:
        client = Client(make_broker(flush=COMMIT))
        client.broker.controller.create("t", 1, {})
        client.send(produce_request(batch(b"a"), acks=acks), 9)
        assert client.answers() == []
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        assert answer.responses[0].partition_responses[0].base_offset == 0
        client.broker.flusher.stop()

    def test_nothing_is_acknowledged_after_a_failed_sync(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = Client(make_broker(flush=COMMIT))
        client.broker.controller.create("t", 1, {})
        log_of(client)

        def fail(_file: MemoryFile) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(MemoryFile, "sync", fail)
        client.send(produce_request(batch(b"a")), 9)
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        refused = answer.responses[0].partition_responses[0]
        assert (refused.error_code, refused.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        monkeypatch.undo()
        again = produce(client, batch(b"a"))
        assert again.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        (line,) = logged(client.broker, "log failed")
        assert "t-0" in line["directory"]
        client.broker.flusher.stop()


def test_deletion_of_a_topic_does_not_fail_requests_that_wait_for_its_sync() -> None:
    client = Client(make_broker(flush=COMMIT))
    client.broker.controller.create("t", 1, {})
    log_of(client)
    client.send(produce_request(batch(b"a")), 9)
    client.broker.delete_topic(client.broker.topics.by_name["t"])
    wait_for_disk(client)
    ((_, answer),) = client.answers()
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert logged(client.broker, "log failed") == []
    client.broker.flusher.stop()
