"""After the first failed write or sync a log acknowledges nothing more [log/fail-stop]."""

import errno

import pytest

from coterie.storage.errors import LogFailed
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.open_files import OpenFiles
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_log import batch, records_of

DURABLE = LogConfig(segment_bytes=600, index_interval_bytes=1, flush=True)
ORDINARY = LogConfig(segment_bytes=600, index_interval_bytes=1)


def faulty(place: Place, config: LogConfig) -> tuple[FaultyFileSystem, Log]:
    filesystem = FaultyFileSystem(place.filesystem)
    return filesystem, Log.open(filesystem, place.directory, config)


def commits(log: Log, acknowledged: list[bytes], count: int) -> None:
    """Append and sync as a broker with `flush=commit`; note what is acknowledged to clients."""
    for number in range(count):
        value = b"value %d" % number
        log.append(batch(value, b"x" * 50))
        if log.config.flush:
            log.sync()
        acknowledged.append(value)


def values_of(log: Log) -> list[bytes | None]:
    return [each.value for each in records_of(b"".join(log.chunks())) if each.value != b"x" * 50]


@pytest.mark.parametrize("config", [DURABLE, ORDINARY])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EINTR])
def test_nothing_is_acknowledged_after_any_failed_call(
    memory: Place, config: LogConfig, number: int
) -> None:
    """As in SQLite's tests, the first call fails, then the second, until there is none left."""
    failing = failed_snapshots = 0
    while True:
        failing += 1
        place = memory._replace(directory=f"/data/{failing}")
        place.filesystem.make_directory(place.directory)
        filesystem, log = faulty(place, config)
        filesystem.fail_at("writing", failing, number)
        acknowledged: list[bytes] = []
        stopped = None
        try:
            commits(log, acknowledged, 12)
        except LogFailed as failure:
            stopped = failure
        if stopped is None and filesystem.failed_path.endswith(".snapshot"):
            # Without the snapshot the next start only reads more.
            failed_snapshots += 1
            assert not log.failed
            assert values_of(log) == acknowledged
            continue
        if stopped is None:
            break
        assert stopped.cause.errno == number
        assert place.directory in str(stopped)
        assert log.failed
        length = len(acknowledged)
        for _ in range(3):
            with pytest.raises(LogFailed):
                commits(log, acknowledged, 1)
            with pytest.raises(LogFailed):
                log.sync()
            with pytest.raises(LogFailed):
                log.roll()
        assert len(acknowledged) == length
        # Acknowledged records can be read, before and after a restart.
        assert values_of(log)[:length] == acknowledged
        log.close()
        again = Log.open(place.filesystem, place.directory, config)
        assert values_of(again)[:length] == acknowledged
        assert len(values_of(again)) <= length + 1
    assert filesystem.failed == 0
    assert failing > 20, "the loop has failed every kind of call"
    assert failed_snapshots > 1, "snapshots are created and written"


@pytest.mark.parametrize("torn_bytes", [1, 60, 61, 100])
def test_an_incomplete_write_fails_the_log(memory: Place, torn_bytes: int) -> None:
    filesystem, log = faulty(memory, LogConfig())
    log.append(batch(b"first"))
    filesystem.fail_at("write", 1, errno.ENOSPC, torn_bytes)
    with pytest.raises(LogFailed, match="ENOSPC"):
        log.append(batch(b"second" * 30))
    assert (log.log_end_offset, log.failed) == (1, True)
    with pytest.raises(LogFailed, match="ENOSPC"):
        log.append(batch(b"third"))
    assert values_of(log) == [b"first"]
    again = Log.open(memory.filesystem, memory.directory)
    assert values_of(again) == [b"first"]
    assert again.tail_cut is not None
    assert again.tail_cut.bytes_cut == torn_bytes


def test_a_failed_sync_is_never_repeated(memory: Place) -> None:
    filesystem, log = faulty(memory, DURABLE)
    log.append(batch(b"first"))
    log.sync()
    filesystem.fail_at("sync", 1)
    log.append(batch(b"second"))
    with pytest.raises(LogFailed, match="EIO"):
        log.sync()
    syncs = filesystem.calls["sync"]
    # A second sync would succeed, as on a real kernel that has dropped the page.
    with pytest.raises(LogFailed):
        log.sync()
    with pytest.raises(LogFailed):
        log.append(batch(b"third"))
    log.close()
    assert filesystem.calls["sync"] == syncs
    assert log.synced_offset == 1


def test_a_sync_has_three_steps(memory: Place) -> None:
    filesystem, log = faulty(memory, DURABLE)
    assert log.unsynced() is None
    log.append(batch(b"first"))
    pending = log.unsynced()
    assert pending is not None
    log.append(batch(b"second"))
    pending.run()
    log.synced(pending)
    assert log.synced_offset == 1, (
        "records that were appended after the sync began are not included"
    )
    pending = log.unsynced()
    assert pending is not None
    assert pending.end.offset == 2
    filesystem.fail_at("sync", 1)
    error = None
    try:
        pending.run()
    except OSError as failure:
        error = failure
    log.synced(pending, error)
    assert log.failed
    assert log.synced_offset == 1
    with pytest.raises(LogFailed):
        log.unsynced()


def test_a_file_that_is_being_synced_is_not_closed(memory: Place) -> None:
    log = Log.open(memory.filesystem, memory.directory, DURABLE)
    log.append(batch(b"x" * 400))
    pending = log.unsynced()
    assert pending is not None
    log.append(batch(b"y" * 400))  # This rolls.
    assert len(log.segments) == 2
    log.close()
    assert log._files.count == 1, "the pinned file"
    pending.run()
    log.synced(pending)
    assert log._files.count == 0


def test_a_segment_is_synced_before_the_next_one_is_begun(memory: Place) -> None:
    filesystem, log = faulty(memory, DURABLE)
    log.append(batch(b"x" * 400))
    # The first epoch is not synced: a turn of the event loop may begin many logs.
    assert filesystem.calls["sync"] == 0
    assert filesystem.calls["sync_directory"] == 1, "the segment's"
    log.append(batch(b"x" * 400))
    assert len(log.segments) == 2
    assert filesystem.calls["sync"] == 1
    assert filesystem.calls["sync_directory"] == 2, "both segments'"
    assert log.synced_offset == 0, "only a requested sync moves it"
    log.sync()
    assert log.synced_offset == 2


def test_a_later_epoch_is_synced_before_its_first_batch(memory: Place) -> None:
    filesystem, log = faulty(memory, DURABLE)
    log.append(batch(b"x"))
    assert filesystem.calls["sync"] == 0
    log.leader_epoch = 1
    log.append(batch(b"y"))
    assert filesystem.calls["sync"] == 1, "the checkpoint of epochs, which exists now"


def test_the_sync_of_a_roll_does_not_count_for_a_sync_in_progress(memory: Place) -> None:
    """The kernel reports a lost write once, to the sync in progress and not to that of the roll."""
    filesystem, log = faulty(memory, DURABLE)
    log.append(batch(b"x" * 400))
    pending = log.unsynced()
    assert pending is not None
    filesystem.fail_at("sync", 1)
    with pytest.raises(OSError, match="EIO") as caught:
        pending.run()  # This runs in another thread.
    log.append(batch(b"y" * 400))  # This rolls, and the sync of the roll succeeds.
    assert len(log.segments) == 2
    assert log.unsynced() is not None
    log.synced(pending, caught.value)
    assert log.failed
    assert log.synced_offset == 0


def test_dirty_files_are_not_closed_before_their_sync(memory: Place) -> None:
    """The kernel does not report a lost write to a descriptor that was opened later."""
    log = Log.open(memory.filesystem, memory.directory, DURABLE)
    log.use(OpenFiles(memory.filesystem, limit=4))
    log.append(batch(b"x" * 400))
    log.append(batch(b"y" * 400))
    assert len(log.segments) == 2
    dirty = set(log._sync.pinned.values())
    assert len(dirty) == 2
    assert dirty == set(log._files._pins)
    for name in "abcdef":
        log._files.create(f"{memory.directory}/{name}")
    assert log._files.count == 4
    assert dirty <= set(log._files._files.values())
    pending = log.unsynced()
    assert pending is not None
    assert set(pending.files) == dirty
    log.synced(pending)
    assert not log._sync.pinned
    assert not log._files._pins


def test_without_flush_nothing_is_synced_before_the_end(memory: Place) -> None:
    filesystem, log = faulty(memory, ORDINARY)
    commits(log, [], 30)
    assert len(log.segments) > 3
    assert filesystem.calls["sync"] == filesystem.calls["sync_directory"] == 0
    log.close()
    # Every segment, the leader epochs, and the names of both are synced.
    assert filesystem.calls["sync"] == len(log.segments) + 1
    assert filesystem.calls["sync_directory"] == 2
    # Without a recovery point a start does not know that, so the next sync includes everything.
    filesystem, log = faulty(memory, ORDINARY)
    assert log.synced_offset == 0
    log.sync()
    assert filesystem.calls["sync"] == len(log.segments)
    log = Log.open(memory.filesystem, memory.directory, ORDINARY, recovery_point=60)
    assert log.unsynced() is None
    filesystem, log = faulty(memory, ORDINARY)
    commits(log, [], 30)
    log.sync()
    assert filesystem.calls["sync"] >= 3
    assert log.unsynced() is None


def test_deleting_records_fails_the_log_like_a_write(memory: Place) -> None:
    filesystem, log = faulty(memory, ORDINARY)
    commits(log, [], 12)
    filesystem.fail_at("remove", 1)
    with pytest.raises(LogFailed):
        log.delete_records(10)
    assert log.failed
    with pytest.raises(LogFailed):
        log.delete_records(12)


def test_the_harness_sees_a_log_that_goes_on_after_a_failed_sync(memory: Place) -> None:
    """The canary: the checks above find a log that forgets its failure."""
    filesystem, log = faulty(memory, DURABLE)
    commits(log, [], 1)
    filesystem.fail_at("sync", 1)
    acknowledged: list[bytes] = []
    with pytest.raises(LogFailed):
        commits(log, acknowledged, 1)
    log._sync.failure = None
    commits(log, acknowledged, 1)
    assert acknowledged == [b"value 0"], "the tests above would fail here"


def test_log_is_synced_at_once_if_its_file_cannot_stay_open(memory: Place) -> None:
    """The rule [log/open-files]: at most half of the open files are pinned."""
    files = OpenFiles(memory.filesystem, limit=2)
    logs: list[Log] = []
    for name in "ab":
        directory = f"{memory.directory}/{name}"
        memory.filesystem.make_directory(directory)
        logs.append(Log.open(memory.filesystem, directory, DURABLE, files=files))
        logs[-1].append(batch(b"x"))
    assert [len(log._sync.pinned) for log in logs] == [1, 0]
    assert [log.synced_offset for log in logs] == [0, 1]
    logs[0].sync()
    logs[1].append(batch(b"x"))
    assert [len(log._sync.pinned) for log in logs] == [0, 1]
    assert logs[1].synced_offset == 1
