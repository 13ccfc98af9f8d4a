"""A data directory: its lock, Kafka's files, and partitions that are made and deleted."""

import re
from pathlib import Path

import pytest

from coterie.storage.directory import DataDirectory
from coterie.storage.errors import CorruptLog, DirectoryLocked, DirectoryMismatch, LogFailed
from coterie.storage.filesystem import FileSystem
from coterie.storage.log_config import LogConfig
from coterie.storage.topic_directories import TopicOnDisk
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_log import batch, records_of

ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))


def opened(place: Place, filesystem: FileSystem | None = None, **changes: object) -> DataDirectory:
    arguments: dict[str, object] = {
        "node_id": 1,
        "cluster_id": "a-cluster-id-of-22-chr",
        "directory_id": "a-directory-id-22-char",
    }
    return DataDirectory.open(
        filesystem or place.filesystem,
        place.directory,
        **(arguments | changes),  # type: ignore[arg-type]
    )


def test_a_new_directory_gets_its_ids(place: Place) -> None:
    directory = opened(place)
    assert place.read_plain("meta.properties") == (
        b"version=1\ncluster.id=a-cluster-id-of-22-chr\nnode.id=1\n"
        b"directory.id=a-directory-id-22-char\n"
    )
    assert (directory.cluster_id, directory.node_id) == ("a-cluster-id-of-22-chr", 1)
    directory.close()
    again = opened(place, cluster_id="another", directory_id="another")
    assert again.cluster_id == "a-cluster-id-of-22-chr"
    assert again.directory_id == "a-directory-id-22-char"
    again.close()


def test_missing_directories_are_made(place: Place) -> None:
    deep = place._replace(directory=f"{place.directory}/not/there/yet")
    opened(deep).close()
    assert "meta.properties" in deep.names()


def test_a_second_holder_is_refused_by_name(place: Place) -> None:
    directory = opened(place)
    name = re.escape(place.directory)
    with pytest.raises(DirectoryLocked, match=f"{name} is in use: another process"):
        opened(place)
    directory.close()
    opened(place).close()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"version=1\nnode.id=2\ncluster.id=x\n", "is of node 2, this is node 1"),
        (b"version=2\nnode.id=1\ncluster.id=x\n", "version 2 is not 0 or 1"),
        (b"cluster.id=x\n", "version None"),
    ],
)
def test_the_directory_of_another_node_is_refused(place: Place, text: bytes, error: str) -> None:
    place.write("meta.properties", text)
    for _ in range(2):  # The first refusal releases the lock.
        with pytest.raises(DirectoryMismatch, match=error):
            opened(place)


def test_a_directory_of_kafka_is_accepted(place: Place) -> None:
    place.write(
        "meta.properties",
        b"#\n#Sat Nov 21 09:55:50 UTC 2026\nnode.id=1\ndirectory.id=LJXdsAMUSYIJ6TJ_1anQkg\n"
        b"version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n",
    )
    place.write(".kafka_cleanshutdown", b"")
    place.filesystem.make_directory(f"{place.directory}/__cluster_metadata-0")
    place.filesystem.make_directory(f"{place.directory}/orders-7")
    place.write("orders-7/partition.metadata", b"version: 0\ntopic_id: Eq_gt3AFQ4iJQ2KK0SL-Cw")
    directory = opened(place)
    assert directory.cluster_id == "MkU3OEVBNTcwNTJENDM2Qg"
    assert directory.directory_id == "LJXdsAMUSYIJ6TJ_1anQkg"
    topic_id = bytes.fromhex("12afe0b770054388894362 8ad122fe0b")
    assert directory.topics == {"orders": TopicOnDisk(topic_id, frozenset({7}))}
    # A crash after this must not look like a clean stop.
    assert ".kafka_cleanshutdown" not in place.names()
    directory.close()


def test_a_directory_of_kafka_before_kraft_is_accepted(place: Place) -> None:
    place.write("meta.properties", b"version=0\nbroker.id=1\ncluster.id=old\n")
    place.filesystem.make_directory(f"{place.directory}/orders-0")
    place.write("orders-0/00000000000000000000.log", batch(b"x"))
    directory = opened(place)
    assert directory.cluster_id == "old"
    assert directory.topics == {"orders": TopicOnDisk(bytes(16), frozenset({0}))}
    assert directory.open_log("orders", 0).log_end_offset == 1
    directory.close()


def test_partitions_are_found_again(place: Place) -> None:
    directory = opened(place)
    directory.create_partitions("orders", [0], ID)
    directory.create_partitions("orders", [1, 2], ID)
    directory.create_partitions("a-b.c_d-1", [0], OTHER_ID)
    assert place.read_plain("orders-0/partition.metadata") == (
        b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )
    log = directory.open_log("orders", 2)
    assert directory.open_log("orders", 2) is log
    log.append(batch(b"x"))
    directory.close()
    directory = opened(place)
    assert directory.topics == {
        "orders": TopicOnDisk(ID, frozenset({0, 1, 2})),
        "a-b.c_d-1": TopicOnDisk(OTHER_ID, frozenset({0})),
    }
    assert [
        record.value for record in records_of(directory.open_log("orders", 2).read(0, 999))
    ] == [b"x"]
    directory.close()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a\\b", "a b", "ü", "x" * 250, "a\0"]
)
def test_no_name_leads_out_of_the_directory(place: Place, name: str) -> None:
    directory = opened(place)
    before = place.names()
    with pytest.raises(ValueError, match="not a legal name for a partition"):
        directory.create_partitions(name, [0], ID)
    assert place.names() == before
    directory.close()


def test_an_interrupted_creation_is_undone_by_the_next_start(place: Place) -> None:
    opened(place).close()
    place.filesystem.make_directory(f"{place.directory}/orders-0")
    place.write("orders-0/partition.metadata.tmp", b"version")
    directory = opened(place)
    assert directory.topics == {}
    assert "orders-0" not in place.names()
    directory.close()


@pytest.mark.parametrize(
    "text", [b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\ntopic_id: AA"]
)
def test_unreadable_partition_metadata_is_damage(place: Place, text: bytes) -> None:
    place.filesystem.make_directory(f"{place.directory}/orders-0")
    place.write("orders-0/partition.metadata", text)
    place.write(".kafka_cleanshutdown", b"")
    with pytest.raises(CorruptLog, match=r"orders-0/partition\.metadata"):
        opened(place)


def test_partitions_of_one_topic_with_two_ids_are_refused(place: Place) -> None:
    directory = opened(place)
    directory.create_partitions("orders", [0], ID)
    directory.close()
    place.filesystem.make_directory(f"{place.directory}/orders-1")
    place.write("orders-1/partition.metadata", b"version: 0\ntopic_id: EBESExQVFhcYGRobHB0eHw")
    with pytest.raises(DirectoryMismatch, match="another topic id"):
        opened(place)


def test_deleted_records_stay_deleted(place: Place) -> None:
    directory = opened(place)
    directory.create_partitions("orders", [0, 1], ID)
    for partition in (0, 1):
        log = directory.open_log("orders", partition)
        for _ in range(10):
            log.append(batch(b"x"))
    assert directory.delete_records("orders", 1, 4) == 4
    assert place.read_plain("log-start-offset-checkpoint") == b"0\n1\norders 1 4\n"
    directory.close()
    directory = opened(place)
    assert directory.open_log("orders", 0).log_start_offset == 0
    assert directory.open_log("orders", 1).log_start_offset == 4
    directory.delete_topic("orders")
    assert place.read_plain("log-start-offset-checkpoint") == b"0\n0\n"
    directory.close()


def test_a_new_topic_does_not_begin_where_a_deleted_one_did(place: Place) -> None:
    # A crash between the renaming and the checkpoint leaves the entry of a deleted topic.
    place.write("log-start-offset-checkpoint", b"0\n2\nother 0 9\norders 0 9\n")
    directory = opened(place)
    assert place.read_plain("log-start-offset-checkpoint") == b"0\n0\n"
    directory.create_partitions("orders", [0], ID)
    assert directory.open_log("orders", 0).log_end_offset == 0
    directory.close()
    directory = opened(place)
    assert directory.open_log("orders", 0).log_end_offset == 0
    directory.close()


def test_a_durable_directory_syncs_what_it_makes(memory: Place) -> None:
    filesystem = FaultyFileSystem(memory.filesystem)
    directory = opened(memory, filesystem, durable=True)
    before = filesystem.calls["sync"], filesystem.calls["sync_directory"]
    directory.create_partitions("orders", [0, 1], ID)
    after = filesystem.calls["sync"], filesystem.calls["sync_directory"]
    # The metadata and directory of each partition, and the data directory after the first and last.
    assert (after[0] - before[0], after[1] - before[1]) == (2, 4)
    directory.close()


def test_every_log_is_closed_although_one_has_failed(memory: Place) -> None:
    filesystem = FaultyFileSystem(memory.filesystem)
    directory = opened(memory, filesystem)
    directory.create_partitions("orders", [0, 1, 2], ID)
    for partition in (0, 1, 2):
        directory.open_log("orders", partition, LogConfig(flush=True)).append(batch(b"x"))
    filesystem.fail_at("sync", 2)
    with pytest.raises(LogFailed, match="orders-1"):
        directory.close()
    assert "00000000000000000000.index" in memory._replace(directory="/data/orders-2").names()
    opened(memory).close()


def test_the_lock_excludes_kafka(tmp_path: Path, place: Place) -> None:
    directory = opened(place)
    assert ".lock" in place.names()
    directory.close()
