"""Partitions that are loaded, given up, and stopped because their log fails or has changed.

The event loop is a manual one, so a test can act between any two slices of a load.
"""

import errno
from typing import Any

import pytest

from coterie.coordinator.kernel.shard_state import ShardState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.log_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from coterie.protocol.records import encode_batch, iterate_batches
from coterie.server.coordinators import loading as group_loading
from coterie.server.logs.flusher import FlushMode
from coterie.storage.filesystem import FileSystem
from coterie.storage.log import Log
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.groups import commit, committed, join, stable_member, sync
from tests.unit.server.manual import COMMIT, NEVER, Client, logged, make_broker, wait_for_disk
from tests.unit.server.manual_loop import START_MS

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def connected(**options: Any) -> Client:
    client = Client(make_broker(**options))
    if "t" not in client.broker.topics.by_name:
        client.broker.controller.create("t", 2, {})
    return client


@pytest.fixture
def client() -> Client:
    return connected()


def partition_of_g(client: Client) -> int:
    """Return the partition of `__consumer_offsets` that holds the group "g"."""
    return client.broker.coordinator.partition_for("g")


def log_of_g(client: Client) -> Log:
    return client.broker.topics.by_name["__consumer_offsets"].partitions[partition_of_g(client)].log


def code(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def codes(client: Client) -> list[int]:
    return [code(answer) for _, answer in client.answers()]


def reload(client: Client) -> None:
    """Give the partition of "g" up and load it again, each under a newer epoch."""
    groups, index = client.broker.groups, partition_of_g(client)
    groups.unload_partition(index, groups.epoch(index) + 1)
    groups.load_partition(index, groups.epoch(index) + 1)
    client.loop.turn()


# -- giving up and taking over ---------------------------------------------------------------------


def test_state_is_loaded_when_a_partition_is_taken_over_again(client: Client) -> None:
    member_id, generation_id = stable_member(client)
    fields = {"member_id": member_id, "generation_id_or_member_epoch": generation_id}
    client.call(commit(7, **fields), 8)
    groups, index = client.broker.groups, partition_of_g(client)
    groups.unload_partition(index, 1)
    assert code(client.call(commit(8, **fields), 8)) == ErrorCode.NOT_COORDINATOR
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id=member_id)
    assert client.call(heartbeat, 4).error_code == ErrorCode.NOT_COORDINATOR
    groups.load_partition(index, 2)
    assert groups.is_loading(index)
    # The load takes turns of the event loop, and there was none yet.
    client.send(commit(9, **fields), 8)
    assert codes(client) == [LOADING]
    client.send(heartbeat, 4)
    assert [answer.error_code for _, answer in client.answers()] == [0]
    client.loop.turn()
    assert not groups.is_loading(index)
    assert committed(client) == [7]
    assert client.call(heartbeat, 4).error_code == 0


def test_stale_epochs_are_ignored(client: Client) -> None:
    client.call(commit(7), 8)
    groups, index = client.broker.groups, partition_of_g(client)
    for epoch in (-1, 0):
        groups.unload_partition(index, epoch)
        groups.load_partition(index, epoch)
    assert committed(client) == [7]
    groups.unload_partition(index, 5)
    for epoch in (4, 5):
        groups.load_partition(index, epoch)
        client.loop.turn()
        assert code(client.call(commit(8), 8)) == ErrorCode.NOT_COORDINATOR
    groups.load_partition(index, 6)
    client.loop.turn()
    assert committed(client) == [7]


def test_batches_carry_the_current_epoch(client: Client) -> None:
    groups, index = client.broker.groups, partition_of_g(client)
    client.call(commit(1), 8)
    reload(client)
    client.call(commit(2), 8)
    # A newer epoch of an owned partition applies to the next writes, an older one is ignored.
    groups.load_partition(index, 9)
    groups.load_partition(index, 4)
    client.call(commit(3), 8)
    data = log_of_g(client).read(0, 1 << 20)
    assert [header.leader_epoch for _, header in iterate_batches(data)] == [0, 2, 9]
    # A restart continues with the epoch of the log.
    filesystem = client.broker._data.files.filesystem
    client.broker._data.close()
    again = connected(filesystem=filesystem)
    assert again.broker.groups.epoch(index) == 9
    assert committed(again) == [3]


def test_delayed_requests_are_answered_once_when_a_partition_is_given_up(client: Client) -> None:
    other, late = Client(client.broker, "other"), Client(client.broker, "late")
    member_id, _ = stable_member(client)
    other_id = other.call(join(), 9).member_id
    other.send(join(other_id), 9)
    client.loop.turn()
    assert other.answers() == []
    reload(client)
    ((_, refused),) = other.answers()
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    # The log has the old generation; the member with the delayed join starts again.
    assert client.call(sync(member_id, 1, b""), 5).assignment == b"mine"
    client.loop.advance(60_000)
    assert other.answers() == []
    late_id = late.call(join(), 9).member_id
    late.send(join(late_id), 9)
    client.loop.advance(5)
    ((_, joined),) = late.answers()
    assert joined.error_code == 0


def test_timers_of_an_earlier_ownership_are_cancelled(client: Client) -> None:
    member_id, generation_id = stable_member(client)
    client.loop.advance(9_000)
    reload(client)
    # Nine of ten seconds had passed; the load has started the session again.
    client.loop.advance(9_000)
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id=member_id)
    assert client.call(heartbeat, 4).error_code == 0


def test_queued_operations_are_not_written_after_a_partition_was_given_up(
    client: Client,
) -> None:
    client.call(commit(1), 8)
    end = log_of_g(client).log_end_offset
    client.send(commit(2), 8)
    client.broker.groups.unload_partition(partition_of_g(client), 1)
    client.loop.turn()
    assert codes(client) == [ErrorCode.NOT_COORDINATOR]
    assert log_of_g(client).log_end_offset == end
    client.broker.groups.load_partition(partition_of_g(client), 2)
    client.loop.turn()
    assert committed(client) == [1]


def test_late_sync_of_an_earlier_ownership_acknowledges_nothing() -> None:
    """Operations of the next ownership wait for their own syncs."""
    client = connected(flush=COMMIT)
    client.send(commit(1), 8)
    wait_for_disk(client)
    assert codes(client) == [0]
    client.send(commit(2), 8)
    client.broker.groups.write()  # written, but not synced
    groups, index = client.broker.groups, partition_of_g(client)
    groups.unload_partition(index, 1)
    client.broker.pending_writes.flush()
    assert codes(client) == [ErrorCode.NOT_COORDINATOR]
    groups.load_partition(index, 2)
    wait_for_disk(client)
    wait_for_disk(client)
    assert client.answers() == []
    # The state is that of the log, including operations that were not acknowledged.
    client.send(commit(3, 1), 8)
    wait_for_disk(client)
    assert codes(client) == [0]
    assert committed(client, 0, 1) == [2, 3]
    client.broker.flusher.stop()


def test_load_ends_when_its_partition_is_given_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_loading, "SLICE_BYTES", 200)
    for offset in range(20):
        client.call(commit(offset), 8)
    groups, index = client.broker.groups, partition_of_g(client)
    groups.unload_partition(index, 1)
    groups.load_partition(index, 2)
    for _ in range(5):
        client.loop.turn_once()
    assert groups.is_loading(index)
    groups.unload_partition(index, 3)
    assert not groups.is_loading(index)
    client.loop.turn()
    assert client.broker.coordinator.shards[index].state is ShardState.CLOSED
    assert code(client.call(commit(30), 8)) == ErrorCode.NOT_COORDINATOR
    groups.load_partition(index, 4)
    client.loop.turn_once()
    # With a newer epoch the load in progress continues.
    groups.load_partition(index, 5)
    client.loop.turn()
    assert groups.epoch(index) == 5
    assert committed(client) == [19]


# -- a log that was changed by something else ------------------------------------------------------


def test_log_with_an_unexpected_end_is_loaded_again(client: Client) -> None:
    """The rule [coordinator/failed-append]."""
    client.call(commit(1), 8)
    log = log_of_g(client)
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=1))
    value = encode_value(OffsetCommitValue(offset=44, metadata="", commit_timestamp=START_MS))
    log.append(encode_batch([(key, value)], log.log_end_offset, START_MS))
    end = log.log_end_offset
    client.send(commit(2), 8)
    client.loop.turn()
    assert codes(client) == [ErrorCode.NOT_COORDINATOR]
    assert log.log_end_offset == end
    assert committed(client, 0, 1) == [1, 44]
    assert code(client.call(commit(3), 8)) == 0
    assert client.broker.groups.epoch(partition_of_g(client)) == 0


# -- loading at the start --------------------------------------------------------------------------


def restarted(client: Client, **options: Any) -> Client:
    filesystem = client.broker._data.files.filesystem
    client.broker._data.close()
    return connected(filesystem=filesystem, **options)


def group_in(client: Client, partition: int) -> str:
    coordinator = client.broker.coordinator
    return next(n for n in map(str, range(1000)) if coordinator.partition_for(n) == partition)


def test_smaller_partitions_are_loaded_first(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_loading, "SLICE_BYTES", 200)
    names = [group_in(client, partition) for partition in range(4)]
    for number, name in enumerate(names):
        for offset in range(10 * (4 - number)):
            client.call(commit(offset, group_id=name), 8)
    again = restarted(client, load=False)
    groups, coordinator = again.broker.groups, again.broker.coordinator
    served: list[int] = []
    groups._loading.schedule()
    while groups._loading.busy:
        again.loop.turn_once()
        for index, shard in enumerate(coordinator.shards):
            if shard.state is ShardState.ACTIVE and index not in served:
                served.append(index)
    assert served == [3, 2, 1, 0]
    assert [committed(again, group=name) for name in names] == [[39], [29], [19], [9]]


def test_long_load_logs_its_progress(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_loading, "SLICE_BYTES", 200)
    for offset in range(40):
        client.call(commit(offset), 8)
    again = restarted(client, load=False)

    again.broker.groups._loading.schedule()
    while again.broker.groups._loading.busy:
        again.loop.now_ms += group_loading.PROGRESS_INTERVAL_MS / 10
        again.loop.turn_once()
    progress = logged(again.broker, "loading group partition")
    assert len(progress) >= 2
    assert [line["percent"] for line in progress] == sorted(line["percent"] for line in progress)
    assert all(line["partition"] == partition_of_g(again) for line in progress)
    assert all(line["records_per_s"] > 0 and line["seconds_left"] >= 0 for line in progress)
    (end,) = logged(again.broker, "partitions loaded")
    assert (end["partitions"], end["records"], end["groups"]) == (4, 40, 1)


def test_records_of_unknown_types_are_counted_in_the_log(client: Client) -> None:
    client.call(commit(7), 8)
    log = log_of_g(client)
    pairs = [(b"\0\x09\0\x01g", b"\0\0"), (b"\0\x09\0\x01h", b"\0\0"), (b"\0\x63", None)]
    log.append(encode_batch(pairs, log.log_end_offset, START_MS))
    again = restarted(client)
    (line,) = logged(again.broker, "records of unknown types skipped")
    assert line == {"partition": partition_of_g(again), "records": {"9": 2, "99": 1}}
    assert again.broker.coordinator.shards[partition_of_g(again)].skipped_records == 3
    assert committed(again) == [7]


def test_partition_is_served_after_its_log_was_synced() -> None:
    """The rule [coordinator/load]."""
    first = connected()
    first.call(commit(7), 8)
    filesystem = first.broker._data.files.filesystem
    first.broker._data.close()
    client = connected(filesystem=filesystem, flush=COMMIT)
    index = partition_of_g(client)
    if log_of_g(client).synced_offset < log_of_g(client).log_end_offset:
        assert client.broker.groups.is_loading(index)
        client.send(commit(8), 8)
        assert codes(client) == [LOADING]
    wait_for_disk(client)
    assert log_of_g(client).synced_offset == log_of_g(client).log_end_offset
    assert committed(client) == [7]
    client.broker.flusher.stop()


# -- failing logs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("flush", [NEVER, COMMIT, FlushMode(commit=False, interval_ms=10)], ids=str)
@pytest.mark.parametrize("torn_bytes", [0, 30])
def test_acknowledged_commits_survive_any_failed_write(flush: FlushMode, torn_bytes: int) -> None:
    """Each write and each sync fails in turn: ten commits, some in one turn, then a restart."""
    for kind in ("write", "sync", "writing"):
        for n in range(1, 30):
            acknowledged, failed, memory = _ten_commits(flush, kind, n, torn_bytes)
            again = connected(filesystem=memory)
            assert committed(again)[0] >= acknowledged, (kind, n)
            if not failed:
                # The commits of one turn share a write, and there are four such turns.
                assert n > 4 or kind == "sync"
                break
        else:
            pytest.fail(f"more than 30 calls of {kind} for ten commits")


def _ten_commits(
    flush: FlushMode, kind: str, n: int, torn_bytes: int
) -> tuple[int, int, FileSystem]:
    """Return the last acknowledged offset, the number of failed calls, and the file system."""
    memory = MemoryFileSystem()
    faulty = FaultyFileSystem(memory)
    client = connected(filesystem=faulty, flush=flush, settings={"segment.bytes": "1048576"})
    wait_for_disk(client)
    faulty.fail_at(kind, n, errno.EIO, torn_bytes)
    acknowledged, refused = -1, False
    for first in (0, 1, 3, 5):
        sent = {client.send(commit(first + each), 8): first + each for each in range(first or 1)}
        client.loop.turn()
        client.loop.advance(20)
        wait_for_disk(client)
        for correlation_id, answer in client.answers():
            if code(answer) == 0:
                assert not refused, "nothing is acknowledged after a failure"
                acknowledged = max(acknowledged, sent[correlation_id])
            else:
                assert code(answer) == ErrorCode.NOT_COORDINATOR
                refused = True
    client.broker.flusher.stop()
    # The process dies: its lock is released, its writes stay.
    memory._locked.clear()
    return acknowledged, faulty.failed, memory


def test_failed_partition_is_not_loaded_again() -> None:
    memory = MemoryFileSystem()
    faulty = FaultyFileSystem(memory)
    client = connected(filesystem=faulty)
    client.call(commit(1), 8)
    faulty.fail_at("write", 1)
    assert code(client.call(commit(2), 8)) == ErrorCode.NOT_COORDINATOR
    client.broker.groups.load_partition(partition_of_g(client), 1)
    client.loop.turn()
    assert code(client.call(commit(3), 8)) == ErrorCode.NOT_COORDINATOR
    assert client.broker.coordinator.shards[partition_of_g(client)].state is ShardState.FAILED


def test_failing_log_ends_its_load() -> None:
    filesystem = MemoryFileSystem()
    client = connected(filesystem=filesystem)
    client.call(commit(1), 8)
    groups, index = client.broker.groups, partition_of_g(client)
    groups.unload_partition(index, 1)
    groups.load_partition(index, 2)
    client.loop.turn_once()
    groups.log_failed(log_of_g(client), OSError(errno.EIO, "Input/output error"))
    assert not groups.is_loading(index)
    client.loop.turn()
    assert code(client.call(commit(2), 8)) == ErrorCode.NOT_COORDINATOR


def test_failed_read_fails_only_its_partition() -> None:
    client = connected()
    names = [group_in(client, partition) for partition in range(4)]
    for name in names:
        client.call(commit(5, group_id=name), 8)
    memory = client.broker._data.files.filesystem
    client.broker._data.close()
    faulty = FaultyFileSystem(memory)
    again = connected(filesystem=faulty, load=False)
    loading = again.broker.groups._loading
    loading.schedule()
    while loading._unopened or loading._opening:
        again.loop.turn_once()
    faulty.fail_at("read", 1)
    again.loop.turn()
    outcomes = [code(again.call(commit(6, group_id=name), 8)) for name in names]
    assert sorted(outcomes) == [0, 0, 0, ErrorCode.NOT_COORDINATOR]
