"""Groups on the event loop: responses that wait for the log, timers, restarts, failing logs.

Rules: [coordinator/failed-append], [group-log/batches], [offsets/compression].
"""

import pytest

from coterie.coordinator.kernel.append import MAX_BATCH_BYTES
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.records import Compression, encode_batch, iterate_batches
from coterie.server.coordinators import appends as group_appends
from coterie.storage.memory_filesystem import MemoryFile
from tests.unit.server.groups import commit, committed, join, stable_member
from tests.unit.server.manual import (
    COMMIT,
    Client,
    logged,
    make_broker,
    restarted,
    wait_for_disk,
)
from tests.unit.server.produced import fetch_request


@pytest.fixture
def client() -> Client:
    client = Client(make_broker())
    client.broker.controller.create("t", 2, {})
    return client


def batches_of(client: Client) -> list[int]:
    """Return the record count of each batch in the group's log."""
    partition = client.broker.coordinator.partition_for("g")
    log = client.broker.topics.by_name["__consumer_offsets"].partitions[partition].log
    return [header.record_count for _, header in iterate_batches(log.read(0, 1 << 24))]


def test_commits_of_one_turn_are_one_batch_and_operations_are_not_split(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.connection.data_received(
        b"".join(client.frame(commit(offset, 0, 1), 8) for offset in range(10))
    )
    client.loop.turn()
    assert len(client.answers()) == 10
    assert batches_of(client) == [20]
    monkeypatch.setattr(group_appends, "MAX_BATCH_BYTES", 61 + 3 * 2 * 80)
    client.connection.data_received(
        b"".join(client.frame(commit(offset, 0, 1), 8) for offset in range(10))
    )
    client.loop.turn()
    counts = batches_of(client)[1:]
    assert sum(counts) == 20
    assert len(counts) > 1
    assert all(count % 2 == 0 for count in counts)


def test_commit_too_large_for_a_batch_fails_alone(
    client: Client,
) -> None:
    client.broker.controller.create("wide", 300, {})
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1, committed_metadata="m" * 4096
        )
        for index in range(300)
    ]
    wide = OffsetCommitRequestTopic(name="wide", partitions=partitions)
    client.send(commit(2), 8)
    client.send(commit(3, topics=[wide]), 8)
    client.send(commit(4, 1), 8)
    client.loop.turn()
    codes = [answer.topics[0].partitions[0].error_code for _, answer in client.answers()]
    # The translation of MESSAGE_TOO_LARGE [coordinator/error-translation].
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert committed(client, 0, 1) == [2, 4]


def test_groups_and_offsets_survive_a_restart(client: Client) -> None:
    member_id, generation_id = stable_member(client)
    client.call(commit(7, member_id=member_id, generation_id_or_member_epoch=generation_id), 8)
    filesystem = client.broker._data.files.filesystem
    client.broker._data.close()
    again = Client(make_broker(filesystem=filesystem))
    assert committed(again) == [7]
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id=member_id)
    assert again.call(heartbeat, 4).error_code == 0


def test_requests_during_the_load_are_refused() -> None:
    client = Client(make_broker(load=False))
    client.broker.controller.create("t", 1, {})
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert client.call(join(), 9).error_code == code
    assert client.call(commit(1), 8).topics[0].partitions[0].error_code == code
    # Members must not rejoin because of a load [sessions/heartbeat-while-loading].
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert client.call(heartbeat, 4).error_code == 0


def test_expiry_of_many_offsets_is_split_into_batches() -> None:
    """[coordinator/operation-size]"""
    minute_ms = 60_000
    settings = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "90000"}
    client = Client(make_broker(settings))
    client.broker.controller.create("t", 100, {})
    # A tombstone has nothing but its key, so the id of the group makes it large.
    name = "g" * 30_000
    for first in range(0, 100, 20):
        answer = client.call(commit(first, *range(first, first + 20), group_id=name), 8)
        assert {each.error_code for each in answer.topics[0].partitions} == {0}
    index = client.broker.coordinator.partition_for(name)
    log = client.broker.topics.by_name["__consumer_offsets"].partitions[index].log
    written = log.log_end_offset
    client.loop.advance(3 * minute_ms)
    assert client.broker.coordinator.group(name) is None
    data = b"".join(log.chunks())
    sizes = [
        header.length_bytes for _, header in iterate_batches(data) if header.base_offset >= written
    ]
    assert len(sizes) >= 3
    assert max(sizes) <= MAX_BATCH_BYTES
    assert log.log_end_offset == written + 101
    again = Client(restarted(client.broker, killed=True))
    assert again.broker.coordinator.group(name) is None


@pytest.mark.parametrize("codec", Compression)
def test_compressed_group_log_is_loaded(codec: Compression) -> None:
    settings = {"offsets.topic.compression.codec": str(int(codec))}
    client = Client(make_broker(settings))
    client.broker.controller.create("t", 2, {})
    for offset in range(3):
        client.call(commit(offset), 8)
    partition = client.broker.coordinator.partition_for("g")
    log = client.broker.topics.by_name["__consumer_offsets"].partitions[partition].log
    headers = [header for _, header in iterate_batches(log.read(0, 1 << 20))]
    assert [header.compression for header in headers] == [codec] * len(headers)
    assert len(headers) >= 3
    again = Client(restarted(client.broker, killed=True))
    assert committed(again) == [2]
    assert again.call(commit(9), 8).topics[0].partitions[0].error_code == 0
    assert committed(again) == [9]


def test_partition_that_cannot_be_replayed_fails_alone(
    client: Client,
) -> None:
    coordinator = client.broker.coordinator
    partition = coordinator.partition_for("g")
    other = next(name for name in "abcdefgh" if coordinator.partition_for(name) != partition)
    for group in ("g", other):
        client.call(commit(7, group_id=group), 8)
    # A value of an unknown version fails the load [group-log/unknown-types].
    key = bytes.fromhex("0001000167000174") + bytes(4)
    log = client.broker.topics.by_name["__consumer_offsets"].partitions[partition].log
    log.append(encode_batch([(key, b"\x00\x63")], log.log_end_offset, 0))
    filesystem = client.broker._data.files.filesystem
    client.broker._data.close()
    again = Client(make_broker(filesystem=filesystem))
    (line,) = logged(again.broker, "group partition not loaded")
    assert line["partition"] == partition
    refused = again.call(commit(9), 8).topics[0].partitions[0]
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    assert committed(again, group=other) == [7]


class TestDisk:
    def test_commit_is_acknowledged_after_the_sync(self) -> None:
        client = Client(make_broker(flush=COMMIT))
        client.broker.controller.create("t", 2, {})
        client.send(commit(7), 8)
        assert client.answers() == []
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        assert answer.topics[0].partitions[0].error_code == 0
        client.broker.flusher.stop()

    def test_failed_sync_stops_the_partition(self, monkeypatch: pytest.MonkeyPatch) -> None:
        client = Client(make_broker(flush=COMMIT))
        client.broker.controller.create("t", 2, {})
        client.send(commit(6), 8)
        wait_for_disk(client)
        client.answers()

        def fail(_file: MemoryFile) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(MemoryFile, "sync", fail)
        client.send(commit(7), 8)
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        code = answer.topics[0].partitions[0].error_code
        assert code == ErrorCode.NOT_COORDINATOR
        monkeypatch.undo()
        again = client.call(commit(8), 8)
        assert again.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert not client.broker.fatal.done()
        client.broker.flusher.stop()

    def test_broker_ends_when_its_last_partition_fails(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = Client(make_broker({"offsets.topic.num.partitions": "1"}))
        client.broker.controller.create("t", 2, {})

        def fail(_file: MemoryFile, _position: int, _data: bytes) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(MemoryFile, "write", fail)
        client.send(commit(7), 8)
        client.loop.turn()
        ((_, answer),) = client.answers()
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert "no partition of __consumer_offsets" in client.broker.fatal.result()


def test_consumer_can_read_the_group_log(client: Client) -> None:
    partition = client.broker.coordinator.partition_for("g")
    reader = Client(client.broker)
    request = fetch_request((partition, 0), topic="__consumer_offsets", max_wait_ms=1000)
    reader.send(request, 12)
    client.call(commit(7), 8)
    reader.loop.turn()
    ((_, answer),) = reader.answers()
    assert answer.responses[0].partitions[0].high_watermark == 1
