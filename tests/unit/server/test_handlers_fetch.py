"""Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch; the answers are those of Kafka 4.3.1.

Rules: [connections/disconnect], [data-plane/first-batch], [data-plane/long-poll],
[data-plane/fetch-offset], [data-plane/isolation], [data-plane/current-leader-epoch],
[data-plane/epoch-end-offset], [data-plane/list-offsets], [data-plane/delete-records],
[data-plane/epoch-after-cut].
"""

from typing import Any

import pytest

from coterie.protocol.control_records import encode_marker
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.unit.server.changed_now import delete
from tests.unit.server.manual import Client, make_broker, open_log, restarted
from tests.unit.server.produced import batch, fetch_request, produce, produce_request, values_of


@pytest.fixture
def client() -> Client:
    """Partition 0 holds v0 to v4 at times 1000 to 5000, one batch each; partition 1 holds w0."""
    client = Client(make_broker())
    client.broker.controller.create("t", 3, {})
    for number in range(5):
        produce(client, batch(b"v%d" % number, timestamp_ms=1000 * (number + 1)))
    produce(client, batch(b"w0"), partition=1)
    return client


def fetch(client: Client, *partitions: tuple[int, int], version: int = 12, **fields: Any) -> Any:
    return client.call(fetch_request(*partitions, **fields), version)


def only(answer: Any) -> Any:
    ((partition,),) = (topic.partitions for topic in answer.responses)
    return partition


class TestRead:
    def test_size_limit_of_the_broker(self) -> None:
        client = Client(make_broker({"fetch.max.bytes": "1024"}))
        client.broker.controller.create("t", 1, {})
        for _ in range(4):
            produce(client, batch(b"x" * 400))
        assert len(values_of(only(fetch(client, (0, 0))).records)) == 2

    def test_group_log_can_be_read(self, client: Client) -> None:
        answer = only(fetch(client, (0, 0), topic="__consumer_offsets"))
        assert (answer.error_code, answer.records) == (0, b"")


class TestLongPoll:
    def test_fetch_waits_for_an_append(self, client: Client) -> None:
        reader = Client(client.broker)
        reader.send(fetch_request((0, 5), max_wait_ms=10_000), 12)
        reader.loop.advance(5_000)
        assert reader.answers() == []
        produce(client, batch(b"new"))
        ((_, answer),) = reader.answers()
        assert values_of(only(answer).records) == [b"new"]
        assert not client.broker.topics.by_name["t"].partitions[0].watchers

    def test_fetch_gets_all_appends_of_a_turn(self, client: Client) -> None:
        reader = Client(client.broker)
        reader.send(fetch_request((0, 5), max_wait_ms=10_000), 12)
        requests = [produce_request(batch(value)) for value in (b"one", b"two")]
        client.connection.data_received(b"".join(client.frame(each, 9) for each in requests))
        reader.loop.turn()
        ((_, answer),) = reader.answers()
        assert values_of(only(answer).records) == [b"one", b"two"]

    def test_fetch_waits_for_min_bytes(self, client: Client) -> None:
        reader = Client(client.broker)
        size = len(batch(b"n"))
        reader.send(fetch_request((0, 5), (2, 0), min_bytes=3 * size, max_wait_ms=10_000), 12)
        produce(client, batch(b"1"))
        produce(client, batch(b"2"), partition=2)
        assert reader.answers() == []
        produce(client, batch(b"3"), partition=2)
        ((_, answer),) = reader.answers()
        found = [values_of(each.records) for each in answer.responses[0].partitions]
        assert found == [[b"1"], [b"2", b"3"]]

    def test_existing_records_count_for_min_bytes(self, client: Client) -> None:
        size = len(batch(b"v0"))
        assert only(fetch(client, (0, 4), min_bytes=size, max_wait_ms=1000)).records
        client.send(fetch_request((0, 4), min_bytes=size + 1, max_wait_ms=1000), 12)
        assert client.answers() == []

    def test_fetch_is_answered_after_max_wait(self, client: Client) -> None:
        client.send(fetch_request((0, 4), min_bytes=100_000, max_wait_ms=700), 12)
        client.loop.advance(699)
        assert client.answers() == []
        client.loop.advance(2)
        ((_, answer),) = client.answers()
        assert values_of(only(answer).records) == [b"v4"]

    @pytest.mark.parametrize("fields", [{"min_bytes": 0}, {"max_wait_ms": 0}])
    def test_fetch_without_waiting(self, client: Client, fields: dict[str, int]) -> None:
        values = {"max_wait_ms": 1000, **fields}
        assert only(fetch(client, (0, 5), **values)).records == b""

    def test_lost_connection_ends_its_fetch(self, client: Client) -> None:
        before = client.loop.timers
        reader = Client(client.broker)
        reader.send(fetch_request((0, 5), max_wait_ms=1_000_000), 12)
        reader.connection.connection_lost(None)
        assert not client.broker.topics.by_name["t"].partitions[0].watchers
        assert client.loop.timers == before

    def test_deletion_of_the_topic_ends_the_fetch(self, client: Client) -> None:
        reader = Client(client.broker)
        reader.send(fetch_request((0, 5), max_wait_ms=1_000_000), 12)
        delete(client.broker, client.broker.topics.by_name["t"])
        reader.loop.turn()
        assert len(reader.answers()) == 1


class TestListOffsets:
    def offset_of(
        self,
        client: Client,
        time: int,
        version: int = 11,
        partition: int = 0,
        epoch: int = -1,
        isolation: int = 0,
    ) -> tuple[int, int, int, int]:
        asked = ListOffsetsRequestPartition(
            partition_index=partition, timestamp=time, current_leader_epoch=epoch
        )
        topic = ListOffsetsRequestTopic(name="t", partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])
        answer = client.call(request, version)
        (found,) = answer.topics[0].partitions
        return found.error_code, found.timestamp, found.offset, found.leader_epoch

    def test_nothing_waits_for_the_tiered_storage(self, client: Client) -> None:
        assert self.offset_of(client, -6) == (0, -1, -1, -1)

    def test_read_committed_ends_at_the_last_stable_offset(self, client: Client) -> None:
        log = open_log(client.broker, "t")
        log.append(batch(b"x", timestamp_ms=9000, producer=(7, 0, 0), transactional=True))
        assert self.offset_of(client, -1) == (0, -1, 6, 0)
        assert self.offset_of(client, -1, isolation=1) == (0, -1, 5, 0)
        for time in (-3, 9000):
            assert self.offset_of(client, time) == (0, 9000, 5, 0)
            assert self.offset_of(client, time, isolation=1) == (0, -1, -1, -1)
        assert self.offset_of(client, 4500, isolation=1) == (0, 5000, 4, 0)
        found = only(fetch(client, (0, 4), isolation_level=1))
        assert (found.high_watermark, found.last_stable_offset) == (6, 5)
        assert (values_of(found.records), found.aborted_transactions) == ([b"v4"], [])
        log.append(encode_marker(6, 9000, 7, 0, commit=False))
        found = only(fetch(client, (0, 4), isolation_level=1))
        assert (found.high_watermark, found.last_stable_offset) == (7, 7)
        (aborted,) = found.aborted_transactions
        assert (aborted.producer_id, aborted.first_offset) == (7, 5)

    def test_epoch_is_that_of_the_record(self, client: Client) -> None:
        open_log(client.broker, "t").leader_epoch = 3
        produce(client, batch(b"later", timestamp_ms=9000))
        assert [self.offset_of(client, time)[3] for time in (-1, -2, -3, 1000, 9000)] == [
            3, 0, 3, 0, 3,
        ]  # fmt: skip


class TestOffsetForLeaderEpoch:
    def end_of(
        self, client: Client, epoch: int, current: int = -1, partition: int = 0
    ) -> tuple[int, int, int]:
        asked = OffsetForLeaderEpochRequestPartition(
            partition=partition, current_leader_epoch=current, leader_epoch=epoch
        )
        topics = [OffsetForLeaderEpochRequestTopic(topic="t", partitions=[asked])]
        answer = client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4)
        (found,) = answer.topics[0].partitions
        return found.error_code, found.leader_epoch, found.end_offset

    def test_end_offset_of_an_epoch(self, client: Client) -> None:
        assert self.end_of(client, 0) == (0, 0, 5)
        assert self.end_of(client, 1) == (0, -1, -1)
        assert self.end_of(client, -1) == (0, -1, -1)
        assert self.end_of(client, -2) == self.end_of(client, -2, partition=2) == (0, -2, 0)
        client.broker.topics.by_name["t"].partitions[0].log.leader_epoch = 2
        produce(client, batch(b"later"))
        assert self.end_of(client, 0) == (0, 0, 5)
        assert self.end_of(client, 1) == (0, 0, 5)
        assert self.end_of(client, 2) == (0, 2, 6)

    @pytest.mark.parametrize("loses_power", [False, True], ids=["killed", "power lost"])
    def test_epoch_rises_after_a_loss_of_power(self, client: Client, loses_power: bool) -> None:
        filesystem = client.broker._data.files.filesystem
        assert isinstance(filesystem, MemoryFileSystem)
        if loses_power:
            filesystem.boot += " again"
        again = Client(restarted(client.broker, killed=True))
        epoch = 1 if loses_power else 0
        assert [open_log(again.broker, "t", index).leader_epoch for index in range(3)] == [
            epoch, epoch, 0,
        ]  # fmt: skip
        produce(again, batch(b"later"))
        assert self.end_of(again, 0) == (0, 0, 5 if loses_power else 6)
        assert self.end_of(again, epoch) == (0, epoch, 6)
        found = only(fetch(again, (0, 5), last_fetched_epoch=0))
        assert found.diverging_epoch is None
        found = only(fetch(again, (0, 6), last_fetched_epoch=0))
        if loses_power:
            assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 5)
        else:
            assert found.diverging_epoch is None
