"""Partitions taken over and given up, beside everything else; and logs that fail or part from
memory.

The loop is turned by hand, so a test stands between any two slices of a load.
"""

import errno
from typing import Any

import pytest

from coterie.coordinator.shard import ShardState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.log_records import (
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from coterie.protocol.records import encode_batch, iterate_batches
from coterie.server.groups import loading as group_loading
from coterie.server.logs.flusher import FlushMode
from coterie.storage.filesystem import FileSystem
from coterie.storage.log import Log
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.manual import COMMIT, NEVER, START_MS, Client, make_broker
from tests.unit.server.test_groups import commit, committed, join, stable_member, sync
from tests.unit.server.test_handlers_produce import wait_for_disk

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def connected(**options: Any) -> Client:
    client = Client(make_broker(**options))
    if "t" not in client.broker.topics.by_name:
        client.broker.topics.create("t", 2, {})
    return client


@pytest.fixture
def client() -> Client:
    return connected()


def home(client: Client) -> int:
    """The partition of group "g"."""
    return client.broker.coordinator.partition_for("g")


def log_of(client: Client) -> Log:
    return client.broker.topics.by_name["__consumer_offsets"].partitions[home(client)].log


def code(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def codes(client: Client) -> list[int]:
    return [code(answer) for _, answer in client.answers()]


def retake(client: Client) -> None:
    """Give the partition of "g" up and take it over again, each under a newer epoch."""
    groups, index = client.broker.groups, home(client)
    groups.unload_partition(index, groups.epoch(index) + 1)
    groups.load_partition(index, groups.epoch(index) + 1)
    client.loop.turn()


# -- given up, taken over --------------------------------------------------------------------------


def test_what_was_committed_is_there_when_the_partition_comes_back(client: Client) -> None:
    member_id, generation_id = stable_member(client)
    fields = {"member_id": member_id, "generation_id_or_member_epoch": generation_id}
    client.call(commit(7, **fields), 8)
    groups, index = client.broker.groups, home(client)
    groups.unload_partition(index, 1)
    assert code(client.call(commit(8, **fields), 8)) == ErrorCode.NOT_COORDINATOR
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id=member_id)
    assert client.call(heartbeat, 4).error_code == ErrorCode.NOT_COORDINATOR
    groups.load_partition(index, 2)
    assert groups.is_loading(index)
    # One turn of the connection before the loop's: the load has not had one.
    client.send(commit(9, **fields), 8)
    assert codes(client) == [LOADING]
    client.send(heartbeat, 4)
    assert [answer.error_code for _, answer in client.answers()] == [0]
    client.loop.turn()
    assert not groups.is_loading(index)
    assert committed(client) == [7]
    assert client.call(heartbeat, 4).error_code == 0


def test_older_and_equal_epochs_are_ignored(client: Client) -> None:
    client.call(commit(7), 8)
    groups, index = client.broker.groups, home(client)
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


def test_batches_carry_the_epoch_that_is_held(client: Client) -> None:
    groups, index = client.broker.groups, home(client)
    client.call(commit(1), 8)
    retake(client)
    client.call(commit(2), 8)
    # Held, and led anew: it stays loaded and writes under the new epoch. An older one is ignored.
    groups.load_partition(index, 9)
    groups.load_partition(index, 4)
    client.call(commit(3), 8)
    data = log_of(client).read(0, 1 << 20)
    assert [header.leader_epoch for _, header in iterate_batches(data)] == [0, 2, 9]
    # A restart begins with the epoch that the log has.
    filesystem = client.broker._data.files.filesystem
    client.broker._data.close()
    again = connected(filesystem=filesystem)
    assert again.broker.groups.epoch(index) == 9
    assert committed(again) == [3]


def test_parked_joins_and_syncs_are_told_and_nothing_comes_later(client: Client) -> None:
    other, late = Client(client.broker, "other"), Client(client.broker, "late")
    member_id, _ = stable_member(client)
    other_id = other.call(join(), 9).member_id
    other.send(join(other_id), 9)
    client.loop.turn()
    assert other.answers() == []
    retake(client)
    ((_, told),) = other.answers()
    assert told.error_code == ErrorCode.NOT_COORDINATOR
    # The old generation is what the log has; whoever was parked begins anew.
    assert client.call(sync(member_id, 1, b""), 5).assignment == b"mine"
    client.loop.advance(60_000)
    assert other.answers() == []
    late_id = late.call(join(), 9).member_id
    late.send(join(late_id), 9)
    client.loop.advance(5)
    ((_, joined),) = late.answers()
    assert joined.error_code == 0


def test_timers_of_an_earlier_ownership_do_not_fire(client: Client) -> None:
    member_id, generation_id = stable_member(client)
    client.loop.advance(9_000)
    retake(client)
    # Nine seconds of ten were over; after the load the session begins anew.
    client.loop.advance(9_000)
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id=member_id)
    assert client.call(heartbeat, 4).error_code == 0


def test_what_is_queued_when_the_partition_is_given_up_is_answered_and_not_written(
    client: Client,
) -> None:
    client.call(commit(1), 8)
    end = log_of(client).log_end_offset
    client.send(commit(2), 8)
    client.broker.groups.unload_partition(home(client), 1)
    client.loop.turn()
    assert codes(client) == [ErrorCode.NOT_COORDINATOR]
    assert log_of(client).log_end_offset == end
    client.broker.groups.load_partition(home(client), 2)
    client.loop.turn()
    assert committed(client) == [1]


def test_a_sync_that_ends_after_the_partition_was_given_up_acknowledges_nothing() -> None:
    """Neither then nor in the next ownership, whose own appends wait for their own syncs."""
    client = connected(flush=COMMIT)
    client.send(commit(1), 8)
    wait_for_disk(client)
    assert codes(client) == [0]
    client.send(commit(2), 8)
    client.broker.groups.write()  # in the log, and not synced
    groups, index = client.broker.groups, home(client)
    groups.unload_partition(index, 1)
    client.broker.pending_writes.flush()
    assert codes(client) == [ErrorCode.NOT_COORDINATOR]
    groups.load_partition(index, 2)
    wait_for_disk(client)
    wait_for_disk(client)
    assert client.answers() == []
    # What the log has is the state, also what nobody was promised.
    client.send(commit(3, 1), 8)
    wait_for_disk(client)
    assert codes(client) == [0]
    assert committed(client, 0, 1) == [2, 3]
    client.broker.flusher.stop()


def test_a_load_that_is_given_up_halfway_stops(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_loading, "SLICE_BYTES", 200)
    for offset in range(20):
        client.call(commit(offset), 8)
    groups, index = client.broker.groups, home(client)
    groups.unload_partition(index, 1)
    groups.load_partition(index, 2)
    for _ in range(5):
        groups._loading.slice()
    assert groups.is_loading(index)
    groups.unload_partition(index, 3)
    assert not groups.is_loading(index)
    client.loop.turn()
    assert client.broker.coordinator.shards[index].state is ShardState.CLOSED
    assert code(client.call(commit(30), 8)) == ErrorCode.NOT_COORDINATOR
    groups.load_partition(index, 4)
    groups._loading.slice()
    # A newer epoch while loading goes on with the load there is.
    groups.load_partition(index, 5)
    client.loop.turn()
    assert groups.epoch(index) == 5
    assert committed(client) == [19]


# -- memory and log part ---------------------------------------------------------------------------


def test_a_log_that_is_not_where_it_was_left_is_loaded_again(client: Client) -> None:
    """Spec section 14.2: the callers get NOT_COORDINATOR, and the state is what the log has."""
    client.call(commit(1), 8)
    log = log_of(client)
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
    assert client.broker.groups.epoch(home(client)) == 0


# -- at start --------------------------------------------------------------------------------------


def restarted(client: Client, **options: Any) -> Client:
    filesystem = client.broker._data.files.filesystem
    client.broker._data.close()
    return connected(filesystem=filesystem, **options)


def group_in(client: Client, partition: int) -> str:
    coordinator = client.broker.coordinator
    return next(n for n in map(str, range(1000)) if coordinator.partition_for(n) == partition)


def test_small_partitions_are_served_before_large_ones(
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
    while groups._loading.busy:
        groups._loading.slice()
        for index, shard in enumerate(coordinator.shards):
            if shard.state is ShardState.ACTIVE and index not in served:
                served.append(index)
    assert served == [3, 2, 1, 0]
    assert [committed(again, group=name) for name in names] == [[39], [29], [19], [9]]


def test_long_loads_tell_how_far_they_are(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_loading, "SLICE_BYTES", 200)
    for offset in range(40):
        client.call(commit(offset), 8)
    again = restarted(client, load=False)
    lines = again.broker.log
    while again.broker.groups._loading.busy:
        again.loop.now_ms += group_loading.PROGRESS_INTERVAL_MS / 10
        again.broker.groups._loading.slice()
    progress = lines.named("loading group partition")  # type: ignore[attr-defined]
    assert len(progress) >= 2
    assert [line["percent"] for line in progress] == sorted(line["percent"] for line in progress)
    assert all(line["partition"] == home(again) for line in progress)
    assert all(line["records_per_s"] > 0 and line["seconds_left"] >= 0 for line in progress)
    (end,) = lines.named("partitions loaded")  # type: ignore[attr-defined]
    assert (end["partitions"], end["records"], end["groups"]) == (4, 40, 1)


def test_records_of_unknown_types_are_told_of_by_type(client: Client) -> None:
    client.call(commit(7), 8)
    log = log_of(client)
    pairs = [(b"\0\x05\0\x01g", b"\0\0"), (b"\0\x05\0\x01h", b"\0\0"), (b"\0\x63", None)]
    log.append(encode_batch(pairs, log.log_end_offset, START_MS))
    again = restarted(client)
    (line,) = again.broker.log.named("records of unknown types skipped")  # type: ignore[attr-defined]
    assert line == {"partition": home(again), "records": {"5": 2, "99": 1}}
    assert again.broker.coordinator.shards[home(again)].skipped_records == 3
    assert committed(again) == [7]


def test_with_flush_commit_nothing_is_served_that_is_not_on_the_disk() -> None:
    """A process that was killed may have left what no sync has covered."""
    first = connected()
    first.call(commit(7), 8)
    filesystem = first.broker._data.files.filesystem
    first.broker._data.close()
    client = connected(filesystem=filesystem, flush=COMMIT)
    index = home(client)
    if log_of(client).synced_offset < log_of(client).log_end_offset:
        assert client.broker.groups.is_loading(index)
        client.send(commit(8), 8)
        assert codes(client) == [LOADING]
    wait_for_disk(client)
    assert log_of(client).synced_offset == log_of(client).log_end_offset
    assert committed(client) == [7]
    client.broker.flusher.stop()


# -- logs that fail --------------------------------------------------------------------------------


@pytest.mark.parametrize("flush", [NEVER, COMMIT, FlushMode(commit=False, interval_ms=10)], ids=str)
@pytest.mark.parametrize("torn_bytes", [0, 30])
def test_whatever_write_fails_nothing_is_acknowledged_that_a_restart_does_not_have(
    flush: FlushMode, torn_bytes: int
) -> None:
    """Each write and each sync in turn: ten commits, some together, then a restart."""
    for kind in ("write", "sync", "writing"):
        for n in range(1, 30):
            acknowledged, failed, memory = _ten_commits(flush, kind, n, torn_bytes)
            again = connected(filesystem=memory)
            assert committed(again)[0] >= acknowledged, (kind, n)
            if not failed:
                # Each commit is a write at least, or shares one with those of its turn.
                assert n > 4 or kind == "sync"
                break
        else:
            pytest.fail(f"more than 30 calls of {kind} for ten commits")


def _ten_commits(
    flush: FlushMode, kind: str, n: int, torn_bytes: int
) -> tuple[int, int, FileSystem]:
    """The last offset that was acknowledged, how many calls failed, and what is on the disk."""
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
                assert not refused, "an acknowledgement after a failure was told"
                acknowledged = max(acknowledged, sent[correlation_id])
            else:
                assert code(answer) == ErrorCode.NOT_COORDINATOR
                refused = True
    client.broker.flusher.stop()
    # The process dies here: its lock goes, what it has written stays.
    memory._locked.clear()
    return acknowledged, faulty.failed, memory


def test_a_failed_partition_is_not_taken_over_again_on_its_failed_log() -> None:
    memory = MemoryFileSystem()
    faulty = FaultyFileSystem(memory)
    client = connected(filesystem=faulty)
    client.call(commit(1), 8)
    faulty.fail_at("write", 1)
    assert code(client.call(commit(2), 8)) == ErrorCode.NOT_COORDINATOR
    client.broker.groups.load_partition(home(client), 1)
    client.loop.turn()
    assert code(client.call(commit(3), 8)) == ErrorCode.NOT_COORDINATOR
    assert client.broker.coordinator.shards[home(client)].state is ShardState.FAILED


def test_a_log_that_fails_while_it_is_loaded_stops_the_load() -> None:
    filesystem = MemoryFileSystem()
    client = connected(filesystem=filesystem)
    client.call(commit(1), 8)
    groups, index = client.broker.groups, home(client)
    groups.unload_partition(index, 1)
    groups.load_partition(index, 2)
    groups._loading.slice()
    groups.log_failed(log_of(client), OSError(errno.EIO, "Input/output error"))
    assert not groups.is_loading(index)
    client.loop.turn()
    assert code(client.call(commit(2), 8)) == ErrorCode.NOT_COORDINATOR


def test_a_read_that_fails_keeps_its_partition_out_and_the_others_in() -> None:
    client = connected()
    names = [group_in(client, partition) for partition in range(4)]
    for name in names:
        client.call(commit(5, group_id=name), 8)
    memory = client.broker._data.files.filesystem
    client.broker._data.close()
    faulty = FaultyFileSystem(memory)
    again = connected(filesystem=faulty, load=False)
    while again.broker.groups._loading._unopened:
        again.broker.groups._loading.slice()
    faulty.fail_at("read", 1)
    while again.broker.groups._loading.busy:
        again.broker.groups._loading.slice()
    outcomes = [code(again.call(commit(6, group_id=name), 8)) for name in names]
    assert sorted(outcomes) == [0, 0, 0, ErrorCode.NOT_COORDINATOR]
