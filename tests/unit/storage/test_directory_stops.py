"""What may be incomplete after a clean stop, a kill and a loss of power [recovery/trust]."""

import errno
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coterie.protocol.records import iterate_batches
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import CorruptLog, LogFailed
from coterie.storage.filesystem import FileSystem
from coterie.storage.log_config import LogConfig
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.system_files import system_files
from coterie.storage.torn_tail import TailTrust
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_directory import ID, OTHER_ID, opened
from tests.unit.storage.test_log import batch

MARK = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG = "orders-0/00000000000000000000.log"
CLEAN, PROCESS_DIED, POWER_LOST, UNSYNCED = TailTrust
KEY = ("orders", 0)


def filled(
    place: Place, *, durable: bool = False, filesystem: FileSystem | None = None
) -> DataDirectory:
    """Return an open directory with ten records in each of two partitions."""
    directory = opened(place, filesystem, durable=durable)
    directory.create_partitions("orders", [0, 1], ID)
    for partition in (0, 1):
        log = directory.open_log("orders", partition, LogConfig(flush=durable))
        for _ in range(10):
            log.append(batch(b"x"))
    return directory


_OPEN_FILES_CAN_BE_REMOVED = pytest.mark.skipif(
    not hasattr(os, "pread"), reason="nobody can remove files in use on Windows"
)


def killed(place: Place, directory: DataDirectory) -> None:
    """Release the lock of a directory, as the kernel does if the process is killed."""
    directory._lock.release()


def power_lost(place: Place) -> None:
    assert isinstance(place.filesystem, MemoryFileSystem)
    place.filesystem.boot += " again"


def trusts(directory: DataDirectory) -> list[TailTrust]:
    return [directory.last_stop.trust(("orders", partition)) for partition in (0, 1)]


def after_clean_stop(place: Place) -> TailTrust:
    """Return what a log is trusted with that was not synced; a system without boot ids is worse."""
    return CLEAN if place.filesystem.boot_id() else UNSYNCED


def test_a_clean_stop_leaves_kafkas_mark_and_final_recovery_points(place: Place) -> None:
    filled(place).close()
    assert place.read(MARK) == b'{"version":0,"brokerEpoch":-1}'
    assert place.read_plain(RECOVERY_POINTS) == b"0\n2\norders 0 10\norders 1 10\n"
    directory = opened(place)
    assert directory.last_stop.clean
    assert MARK not in place.names()
    assert trusts(directory) == [after_clean_stop(place)] * 2
    directory.close()
    # No log was opened. The mark is left again.
    assert place.read(MARK)
    assert place.read_plain(RECOVERY_POINTS) == b"0\n2\norders 0 10\norders 1 10\n"


def test_after_a_clean_stop_a_missing_batch_is_damage(memory: Place) -> None:
    filled(memory).close()
    data = memory.read(LOG)
    last = list(iterate_batches(data))[-1][0]
    memory.write(LOG, data[:last])
    directory = opened(memory)
    with pytest.raises(CorruptLog, match="ends at offset 9, but was synced up to 10"):
        directory.open_log("orders", 0)
    assert directory.open_log("orders", 1).log_end_offset == 10
    # A restart does not hide the damage.
    directory.close()
    directory = opened(memory)
    with pytest.raises(CorruptLog, match="was synced up to 10"):
        directory.open_log("orders", 0)
    directory.close()


@pytest.mark.parametrize("durable", [False, True])
def test_a_kill_and_a_loss_of_power_are_distinguished(memory: Place, *, durable: bool) -> None:
    killed(memory, filled(memory, durable=durable))
    directory = opened(memory, durable=durable)
    assert not directory.last_stop.clean
    assert trusts(directory) == [PROCESS_DIED, PROCESS_DIED]
    directory.open_log("orders", 0)
    directory.open_log("orders", 1)
    killed(memory, directory)
    power_lost(memory)
    directory = opened(memory, durable=durable)
    expected = POWER_LOST if durable else UNSYNCED
    assert trusts(directory) == [expected, expected]
    directory.close()


def test_unopened_logs_are_treated_as_they_were_left(memory: Place) -> None:
    killed(memory, filled(memory, durable=True))
    power_lost(memory)
    directory = opened(memory, durable=True)
    directory.open_log("orders", 0)
    assert trusts(directory) == [PROCESS_DIED, POWER_LOST]
    directory.write_recovery_points()
    assert b"power-lost=orders-1\n" in memory.read("coterie-boot-id")
    killed(memory, directory)
    # The boot is the same as the last time, but orders-1 was not opened since the loss of power.
    directory = opened(memory, durable=True)
    assert trusts(directory) == [PROCESS_DIED, POWER_LOST]
    directory.open_log("orders", 0)
    directory.close()
    directory = opened(memory, durable=True)
    assert directory.last_stop.clean
    assert trusts(directory) == [CLEAN, POWER_LOST]
    directory.delete_topic("orders")
    directory.close()
    assert b"orders" not in memory.read("coterie-boot-id")


def test_logs_written_without_syncs_stay_unsynced_until_they_are_opened(memory: Place) -> None:
    killed(memory, filled(memory))
    # From now on logs are synced. orders-1 is not opened, so it is not.
    directory = opened(memory, durable=True)
    directory.open_log("orders", 0)
    directory.write_recovery_points()
    killed(memory, directory)
    for _ in range(2):
        directory = opened(memory, durable=True)
        assert trusts(directory) == [PROCESS_DIED, PROCESS_DIED]
        directory.open_log("orders", 0)
        directory.write_recovery_points()
        killed(memory, directory)
    power_lost(memory)
    directory = opened(memory, durable=True)
    assert trusts(directory) == [POWER_LOST, UNSYNCED]
    directory.close()


def test_a_kill_while_the_logs_are_opened_forgets_nothing(memory: Place) -> None:
    killed(memory, filled(memory, durable=True))
    power_lost(memory)
    for _ in range(3):
        directory = opened(memory, durable=True)
        assert trusts(directory) == [POWER_LOST, POWER_LOST]
        directory.open_log("orders", 0)
        killed(memory, directory)


def test_a_mark_that_comes_back_with_a_loss_of_power_is_not_believed(memory: Place) -> None:
    # Without syncs a loss of power may undo the removal of the mark, and leave an incomplete log.
    filled(memory).close()
    mark = memory.read(MARK)
    directory = opened(memory)
    for _ in range(5):
        directory.open_log("orders", 0).append(batch(b"x"))
    killed(memory, directory)
    data = memory.read(LOG)
    memory.write(LOG, data[:-3])
    memory.write(MARK, mark)
    power_lost(memory)
    directory = opened(memory)
    log = directory.open_log("orders", 0)
    assert log.tail_cut is not None
    assert log.log_end_offset == 14
    killed(memory, directory)
    # What was synced before the mark is still protected.
    memory.write(LOG, data[: len(data) // 3])
    power_lost(memory)
    directory = opened(memory)
    with pytest.raises(CorruptLog, match="was synced up to 10"):
        directory.open_log("orders", 0)
    directory.close()


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"\xff\xfe", b"#coterie crc32c=01234567\n"])
def test_a_damaged_boot_file_is_damage(memory: Place, content: bytes) -> None:
    """It is always synced, so not even a loss of power explains it [recovery/boot-id]."""
    killed(memory, filled(memory))
    memory.write("coterie-boot-id", content)
    with pytest.raises(CorruptLog, match="coterie-boot-id"):
        opened(memory)
    memory.filesystem.remove("/data/coterie-boot-id")
    directory = opened(memory)
    assert trusts(directory) == [UNSYNCED, UNSYNCED]
    directory.close()


def test_a_boot_file_of_an_earlier_version_has_no_checksum(memory: Place) -> None:
    killed(memory, filled(memory))
    memory.write("coterie-boot-id", b"boot-id=another\n")
    directory = opened(memory)
    assert trusts(directory) == [UNSYNCED, UNSYNCED]
    directory.close()


def test_without_a_boot_id_power_may_always_have_been_lost(memory: Place) -> None:
    assert isinstance(memory.filesystem, MemoryFileSystem)
    memory.filesystem.boot = ""
    killed(memory, filled(memory))
    directory = opened(memory)
    assert trusts(directory) == [UNSYNCED, UNSYNCED]
    directory.close()


# --- recovery points, and other checkpoints -------------------------------------------------------


def test_recovery_points_claim_only_what_was_synced(memory: Place) -> None:
    directory = filled(memory)
    directory.write_recovery_points()
    assert directory.recovery_point(*KEY) == 0
    directory.open_log(*KEY).sync()
    directory.open_log(*KEY).append(batch(b"not synced"))
    directory.write_recovery_points()
    assert (directory.recovery_point("orders", 0), directory.recovery_point("orders", 1)) == (10, 0)
    before = memory.read_plain(RECOVERY_POINTS)
    assert before == b"0\n1\norders 0 10\n"
    killed(memory, directory)
    directory = opened(memory)
    directory.open_log(*KEY)
    directory.write_recovery_points()
    assert memory.read_plain(RECOVERY_POINTS) == before
    directory.close()


def test_recovery_points_are_written_when_they_change(memory: Place) -> None:
    filesystem = FaultyFileSystem(memory.filesystem)
    directory = filled(memory, filesystem=filesystem)
    directory.open_log(*KEY).sync()
    directory.write_recovery_points()
    before = filesystem.calls["writing"]
    directory.write_recovery_points()
    assert filesystem.calls["writing"] == before
    directory.open_log("orders", 1).sync()
    filesystem.fail_at("writing", 1)
    with pytest.raises(OSError, match="EIO"):
        directory.write_recovery_points()
    directory.write_recovery_points()  # The next call writes the file after a failure.
    assert memory.read_plain(RECOVERY_POINTS) == b"0\n2\norders 0 10\norders 1 10\n"
    directory.close()


def test_unreadable_recovery_points_matter_after_a_loss_of_power(memory: Place) -> None:
    directory = filled(memory, durable=True)
    directory.open_log(*KEY).sync()
    directory.write_recovery_points()
    killed(memory, directory)
    memory.write(RECOVERY_POINTS, b"0\n7\n")
    directory = opened(memory, durable=True)
    assert directory.recovery_point(*KEY) == 0
    killed(memory, directory)
    power_lost(memory)
    with pytest.raises(CorruptLog, match=RECOVERY_POINTS):
        opened(memory, durable=True)
    memory.filesystem.remove(f"/data/{RECOVERY_POINTS}")
    opened(memory, durable=True).close()


def test_cleaner_offsets_and_log_starts_are_kept(place: Place) -> None:
    directory = filled(place)
    assert directory.cleaner_offset("orders", 1) == 0
    directory.set_cleaner_offset("orders", 1, 7)
    directory.note_log_start("orders", 0, 3)
    killed(place, directory)
    directory = opened(place)
    assert directory.cleaner_offset("orders", 1) == 7
    assert directory.open_log("orders", 0).log_start_offset == 3
    assert place.read_plain("cleaner-offset-checkpoint") == b"0\n1\norders 1 7\n"
    directory.delete_topic("orders")
    assert place.read_plain("cleaner-offset-checkpoint") == b"0\n0\n"
    directory.close()


def test_a_new_topic_does_not_inherit_the_recovery_point_of_its_name(memory: Place) -> None:
    directory = filled(memory)
    directory.open_log(*KEY).sync()
    directory.write_recovery_points()
    directory.delete_topic("orders")
    directory.create_partitions("orders", [0], OTHER_ID)
    killed(memory, directory)
    directory = opened(memory)
    assert directory.open_log(*KEY).log_end_offset == 0
    directory.close()


def test_damaged_cleaner_offsets_only_cost_another_cleaning(memory: Place) -> None:
    directory = filled(memory)
    directory.set_cleaner_offset("orders", 1, 7)
    directory.close()
    memory.write("cleaner-offset-checkpoint", b"0\n1\norders 1 x\n")
    directory = opened(memory)
    assert directory.cleaner_offset("orders", 1) == 0
    directory.close()


# --- stops that are not clean ---------------------------------------------------------------------


def test_no_mark_is_left_after_a_failed_log(memory: Place) -> None:
    filesystem = FaultyFileSystem(memory.filesystem)
    directory = filled(memory, filesystem=filesystem)
    filesystem.fail_at("write", 1, errno.ENOSPC, torn_bytes=30)
    with pytest.raises(LogFailed, match=r"ENOSPC.*make room"):
        directory.open_log(*KEY).append(batch(b"y"))
    directory.close()
    assert MARK not in memory.names()
    directory = opened(memory)
    log = directory.open_log(*KEY)
    assert log.log_end_offset == 10
    assert log.tail_cut is not None
    assert log.tail_cut.bytes_cut == 30
    directory.close()
    assert MARK in memory.names()


def test_no_mark_is_left_if_any_call_fails_while_closing(memory: Place) -> None:
    """Each writing call of a stop fails in turn."""
    reached = 0
    for failing in range(1, 60):
        place = memory._replace(directory=f"/data/{failing}")
        filesystem = FaultyFileSystem(memory.filesystem)
        directory = filled(place, filesystem=filesystem)
        filesystem.fail_at("writing", failing)
        try:
            directory.close()
        except (OSError, LogFailed):
            reached += 1
            # The mark may exist if it was complete, because the last call syncs its name.
            is_marked = MARK in place.names()
            directory = opened(place)
            assert directory.last_stop.clean == is_marked
            for partition in (0, 1):
                assert directory.open_log("orders", partition).log_end_offset == 10
            directory.close()
    assert reached > 10


def test_a_stop_always_syncs_and_a_start_syncs_only_our_file(memory: Place) -> None:
    filesystem = FaultyFileSystem(memory.filesystem)
    directory = filled(memory, filesystem=filesystem)
    assert filesystem.calls["sync"] == filesystem.calls["sync_directory"] == 1
    directory.close()
    assert filesystem.calls["sync"] >= 4
    filesystem.calls.clear()
    directory = opened(memory, filesystem)
    directory.open_log(*KEY)
    assert filesystem.calls["sync"] == filesystem.calls["sync_directory"] <= 1
    directory.close()


@_OPEN_FILES_CAN_BE_REMOVED
def test_a_directory_that_is_removed_while_in_use_is_noticed(tmp_path: Path) -> None:
    place = Place(system_files(), str(tmp_path / "data"))
    directory = filled(place, durable=True)
    log = directory.open_log(*KEY)
    log.sync()
    directory.check()
    shutil.rmtree(place.directory)
    with pytest.raises(FileNotFoundError, match="removed or replaced while in use"):
        directory.check()
    # The kernel accepts writes to a removed file, and keeps nothing of them.
    log.append(batch(b"y"))
    with pytest.raises(LogFailed, match="removed while it was in use"):
        log.sync()
    with pytest.raises((OSError, LogFailed)):
        directory.close()


@_OPEN_FILES_CAN_BE_REMOVED
def test_a_directory_that_is_replaced_while_in_use_is_noticed(tmp_path: Path) -> None:
    place = Place(system_files(), str(tmp_path / "data"))
    directory = filled(place)
    (tmp_path / "data").rename(tmp_path / "away")
    other = filled(place)
    with pytest.raises(FileNotFoundError, match="removed or replaced"):
        directory.check()
    other.check()
    with pytest.raises(FileNotFoundError):
        directory.close()
    other.close()


def test_removing_a_segment_during_its_sync_is_not_a_failure(place: Place) -> None:
    directory = opened(place)
    directory.create_partitions("orders", [0], ID)
    log = directory.open_log(*KEY, LogConfig(segment_bytes=300, flush=True))
    for _ in range(12):
        log.append(batch(b"x"))
    pending = log.unsynced()
    assert pending is not None
    assert len(pending.files) > 1
    log.delete_records(11)
    pending.run()
    log.synced(pending)
    assert (log.failed, log.synced_offset) == (False, 12)
    directory.close()


def test_empty_metadata_after_a_loss_of_power_is_an_interrupted_creation(memory: Place) -> None:
    killed(memory, filled(memory))
    power_lost(memory)
    for partition in (0, 1):
        memory.write(f"orders-{partition}/partition.metadata", b"")
    memory.filesystem.remove("/data/orders-1/00000000000000000000.log")
    directory = opened(memory)
    # One partition has records, and gets a new topic id from the server. The other was never used.
    assert directory.topics["orders"].partitions == {0}
    assert directory.topics["orders"].topic_id == bytes(16)
    assert directory.open_log(*KEY).log_end_offset == 10
    directory.close()


def test_a_log_start_beyond_the_end_is_damage_unless_power_was_lost(memory: Place) -> None:
    directory = filled(memory)
    assert directory.delete_records("orders", 0, 9) == 9
    killed(memory, directory)
    data = memory.read(LOG)
    memory.write(LOG, data[: len(data) // 2])
    directory = opened(memory)
    with pytest.raises(CorruptLog, match=r"damaged at byte"):
        directory.open_log(*KEY)
    assert LOG.rpartition("/")[2] in memory._replace(directory="/data/orders-0").names()
    killed(memory, directory)
    power_lost(memory)
    directory = opened(memory)
    log = directory.open_log(*KEY)
    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
    assert log.tail_cut is not None
    directory.close()


def in_threads(calls: list[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(call) for call in calls]:
            each.result()


def test_logs_are_closed_by_several_threads(place: Place) -> None:
    directory = opened(place)
    directory.create_partitions("orders", range(40), ID)
    for number in range(40):
        directory.open_log("orders", number).append(batch(b"a"))
    directory.close(in_threads)
    again = opened(place)
    assert again.last_stop.trust(KEY) is after_clean_stop(place)
    assert {again.open_log("orders", number).log_end_offset for number in range(40)} == {1}
    again.close()


def test_failed_log_does_not_keep_threads_from_closing_the_others(place: Place) -> None:
    directory = filled(place)
    directory.open_log("orders", 1).fail(OSError(errno.EIO, "Input/output error"))
    directory.close(in_threads)
    again = opened(place)
    assert again.last_stop.trust(KEY) is not CLEAN
    assert again.open_log("orders", 0).log_end_offset == 10
    again.close()
