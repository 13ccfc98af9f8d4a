"""Bugs that the crash tests have found (`tests/crash`), each in its smallest form."""

import pytest

from coterie.protocol.records import encode_batch
from coterie.storage.directory import DataDirectory
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.torn_tail import TailTrust
from tests.crash.disk import Disk, RecordingFileSystem
from tests.crash.losses import power_losses
from tests.unit.storage.conftest import Place
from tests.unit.storage.produced_batches import end_transaction, produced
from tests.unit.storage.test_directory import ID, opened
from tests.unit.storage.test_directory_stops import filled, killed, power_lost

METADATA = "orders-0/partition.metadata"
LOG_STARTS = "log-start-offset-checkpoint"


@pytest.mark.parametrize("path", ["/data", "/var/lib/coterie", "data"])
def test_a_new_directory_survives_a_loss_of_power(path: str) -> None:
    filesystem = RecordingFileSystem()
    DataDirectory.open(
        filesystem, path, node_id=1, cluster_id="c", directory_id="d", durable=True
    ).create_partitions("orders", [0], ID)
    operations = filesystem.operations
    for crash in power_losses(Disk(), operations, len(operations), len(operations)):
        assert f"/{path.strip('/')}/{METADATA}" in crash.disk.paths()


def test_damage_accepted_after_a_loss_of_power_is_repaired_for_the_next_start(
    memory: Place,
) -> None:
    directory = filled(memory)
    directory.note_log_start("orders", 0, 3)
    killed(memory, directory)
    memory.write(METADATA, bytes(43))
    memory.write(LOG_STARTS, b"0")
    power_lost(memory)
    killed(memory, opened(memory))
    again = opened(memory)
    assert again.topics["orders"].topic_id == ID, "it is known from the other partition"


def test_an_offset_beyond_any_segment_is_damage_in_a_compacted_log_too(memory: Place) -> None:
    config = LogConfig(index_interval_bytes=1, compacted=True)
    log = Log.open(memory.filesystem, memory.directory, config)
    for _ in range(4):
        log.append(encode_batch([(b"k", b"v")], 0, 1))
    log.close()
    name = "00000000000000000000.log"
    data = bytearray(memory.read(name))
    length = len(data) // 4
    # A high bit of the third batch's base offset, which the checksum does not cover.
    data[2 * length + 2] ^= 1
    memory.write(name, bytes(data))
    again = Log.open(memory.filesystem, memory.directory, config)
    assert again.tail_cut is not None
    assert again.log_end_offset == 2


def test_an_older_segment_that_was_lost_before_the_start_of_the_log(memory: Place) -> None:
    config = LogConfig(segment_bytes=200)
    log = Log.open(memory.filesystem, memory.directory, config)
    for sequence in range(6):
        log.append(produced(sequence))
    log.delete_records(3)
    first, *later = log.segments
    assert later
    memory.write(first.path.rpartition("/")[2], b"")
    again = Log.open(
        memory.filesystem,
        memory.directory,
        config,
        log_start_offset=3,
        trust=TailTrust.POWER_LOST_UNSYNCED,
    )
    assert (again.log_start_offset, again.log_end_offset) == (3, 3)
    assert again.tail_cut is not None


def test_a_log_that_begins_anew_has_no_open_transaction(memory: Place) -> None:
    log = Log.open(memory.filesystem, memory.directory)
    log.append(produced(0, transactional=True))
    log.roll()
    log.append(produced(1, transactional=True))
    log.append(produced(2, transactional=True))
    for segment in log.segments:
        memory.write(segment.path.rpartition("/")[2], b"")
    again = Log.open(
        memory.filesystem,
        memory.directory,
        log_start_offset=2,
        trust=TailTrust.POWER_LOST_UNSYNCED,
    )
    assert (again.log_start_offset, again.last_stable_offset, len(again.producers)) == (2, 2, 0)


@pytest.mark.parametrize("flush", [True, False], ids=["commit", "never"])
def test_transaction_index_of_an_earlier_process_is_synced(flush: bool) -> None:
    filesystem = RecordingFileSystem()
    filesystem.make_directory("/t-0")
    config = LogConfig(flush=flush)
    log = Log.open(filesystem, "/t-0", config)
    log.append(produced(0, transactional=True))
    end_transaction(log, commit=False)
    # The process dies. The next one finds the file as it should be.
    again = Log.open(filesystem, "/t-0", config, trust=TailTrust.PROCESS_DIED)
    if flush:
        again.roll()
    else:
        again.close()
    synced = [each.path for each in filesystem.operations if each.kind == "sync"]
    assert "/t-0/00000000000000000000.txnindex" in synced
