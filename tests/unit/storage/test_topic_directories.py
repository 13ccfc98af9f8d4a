"""Topics of a data directory: created, extended and deleted as a whole, whatever interrupts it."""

import errno

import pytest

from coterie.storage.directory import DataDirectory
from coterie.storage.log_config import LogConfig
from coterie.storage.partition_directories import deleted_name
from coterie.storage.topic_directories import TopicOnDisk
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_directory import ID, OTHER_ID, opened
from tests.unit.storage.test_directory_stops import killed
from tests.unit.storage.test_log import batch


def remove_deleted(directory: DataDirectory) -> None:
    while directory.remove_deleted():
        pass


def names_of(place: Place, topic: str) -> list[str]:
    return [name for name in place.names() if name.startswith(topic[:100])]


@pytest.mark.parametrize("topic", ["orders", "x" * 249])
def test_a_deleted_topic_frees_its_name(place: Place, topic: str) -> None:
    directory = opened(place)
    directory.create_partitions(topic, [0, 1], ID)
    log = directory.open_log(topic, 0, LogConfig(flush=True))
    log.append(batch(b"x"))
    pending = log.unsynced()
    assert pending is not None
    directory.delete_topic(topic)
    pending.run()
    log.synced(pending)
    assert (directory.topics, directory.deleted_topics) == ({}, {ID: topic})
    assert directory.files.count == 0
    directory.create_partitions(topic, [0], OTHER_ID)
    assert directory.open_log(topic, 0).log_end_offset == 0
    remove_deleted(directory)
    assert directory.deleted_topics == {}
    assert names_of(place, topic) == [f"{topic}-0"]
    directory.close()


@pytest.mark.parametrize("failing", range(1, 12))
def test_an_interrupted_deletion_is_finished_by_the_next_start(memory: Place, failing: int) -> None:
    """No start finds a part of the topic, and nothing of it gets into the next one."""
    directory = opened(memory)
    directory.create_partitions("orders", [0, 1, 2], ID)
    directory.open_log("orders", 0).append(batch(b"x"))
    directory.note_log_start("orders", 0, 1)
    directory.close()
    filesystem = FaultyFileSystem(memory.filesystem)
    directory = opened(memory, filesystem)
    filesystem.fail_at("writing", failing)
    was_deleted = True
    try:
        directory.delete_topic("orders")
        remove_deleted(directory)
    except OSError:
        was_deleted = "orders" not in directory.topics
    assert was_deleted == (failing > 1)
    killed(memory, directory)
    directory = opened(memory)
    if not was_deleted:
        assert directory.topics["orders"].partitions == {0, 1, 2}
        return
    assert directory.topics == {}
    remove_deleted(directory)
    assert names_of(memory, "orders") == []
    directory.create_partitions("orders", [0], OTHER_ID)
    assert directory.open_log("orders", 0).log_end_offset == 0
    directory.close()


def test_the_next_start_knows_deleted_topics_until_their_files_are_removed(place: Place) -> None:
    topic = "x" * 249
    directory = opened(place)
    directory.create_partitions(topic, [0], ID)
    directory.create_partitions("orders", [0], OTHER_ID)
    directory.delete_topic(topic)
    directory.delete_topic("orders")
    directory.close()
    directory = opened(place)
    assert directory.deleted_topics == {ID: topic, OTHER_ID: "orders"}
    assert directory.remove_deleted(kept=[ID])
    assert not directory.remove_deleted(kept=[ID])
    assert directory.deleted_topics == {ID: topic}
    remove_deleted(directory)
    directory.close()
    assert names_of(place, topic) == []


def test_directories_that_kafka_has_deleted_are_removed(place: Place) -> None:
    opened(place).close()
    name = deleted_name("orders", 0, bytes(16))
    place.filesystem.make_directory(f"{place.directory}/{name}")
    place.write(f"{name}/partition.metadata", b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    directory = opened(place)
    assert (directory.topics, directory.deleted_topics) == ({}, {})
    remove_deleted(directory)
    assert name not in place.names()
    directory.close()


def test_a_name_is_not_used_again_before_all_directories_are_renamed(memory: Place) -> None:
    filesystem = FaultyFileSystem(memory.filesystem)
    directory = opened(memory, filesystem)
    directory.create_partitions("orders", [0, 1, 2], ID)
    directory.open_log("orders", 2).append(batch(b"old"))
    filesystem.fail_at("rename", 2)
    with pytest.raises(OSError, match="EIO"):
        directory.delete_topic("orders")
    assert directory.topics == {}
    remove_deleted(directory)
    filesystem.fail_at("rename", 1)
    with pytest.raises(OSError, match="EIO"):
        directory.create_partitions("orders", [0, 1, 2], OTHER_ID)
    assert directory.topics == {}
    directory.create_partitions("orders", [0, 1, 2], OTHER_ID)
    assert directory.open_log("orders", 2).log_end_offset == 0
    directory.close()


def test_a_topic_is_not_deleted_if_its_first_directory_cannot_be_renamed(memory: Place) -> None:
    filesystem = FaultyFileSystem(memory.filesystem)
    directory = opened(memory, filesystem)
    directory.create_partitions("orders", [0, 1], ID)
    log = directory.open_log("orders", 0)
    filesystem.fail_at("rename", 1)
    with pytest.raises(OSError, match="EIO"):
        directory.delete_topic("orders")
    assert directory.topics["orders"].partitions == {0, 1}
    assert directory.open_log("orders", 0) is log
    assert log.append(batch(b"x")) == 0
    directory.close()


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("failing", range(1, 12))
def test_a_failed_creation_leaves_nothing(memory: Place, failing: int, durable: bool) -> None:
    """The client may create the topic again, with another id and fewer partitions."""
    filesystem = FaultyFileSystem(memory.filesystem)
    directory = opened(memory, filesystem, durable=durable)
    filesystem.fail_at("writing", failing, errno.ENOSPC)
    with pytest.raises(OSError, match="ENOSPC"):
        directory.create_partitions("orders", [0, 1, 2], ID)
    assert directory.topics == {}
    directory.create_partitions("orders", [0], OTHER_ID)
    killed(memory, directory)
    directory = opened(memory)
    assert directory.topics == {"orders": TopicOnDisk(OTHER_ID, frozenset({0}))}
    directory.close()


def test_a_creation_that_cannot_be_undone_blocks_its_name_until_it_can(memory: Place) -> None:
    filesystem = FaultyFileSystem(memory.filesystem)
    directory = opened(memory, filesystem)
    filesystem.fail_from("writing", 4)
    with pytest.raises(OSError, match="EIO"):
        directory.create_partitions("orders", [0, 1], ID)
    with pytest.raises(OSError, match="EIO"):
        directory.create_partitions("orders", [0], OTHER_ID)
    filesystem.fail_at("writing", 0)
    directory.create_partitions("orders", [0], OTHER_ID)
    directory.close()
    directory = opened(memory)
    assert directory.topics == {"orders": TopicOnDisk(OTHER_ID, frozenset({0}))}
    directory.close()


def test_a_topic_is_not_created_in_a_directory_of_something_else(place: Place) -> None:
    directory = opened(place)
    place.filesystem.make_directory(f"{place.directory}/orders-0")
    place.write("orders-0/00000000000000000000.log", batch(b"precious"))
    with pytest.raises(FileExistsError):
        directory.create_partitions("orders", [0, 1], ID)
    assert place.read("orders-0/00000000000000000000.log") == batch(b"precious")
    assert "orders-1" not in place.names()
    directory.close()


def test_a_file_named_like_a_partition_is_ignored(place: Place) -> None:
    place.write("notes-2", b"")
    directory = opened(place)
    assert directory.topics == {}
    directory.close()


def test_the_greatest_partition_is_created_first_and_deleted_partitions_are_named_by_id(
    memory: Place,
) -> None:
    """Everything above depends on these orders [log/partition-creation] [log/topic-deletion]."""
    filesystem = FaultyFileSystem(memory.filesystem)
    directory = opened(memory, filesystem)
    filesystem.fail_at("make_directory", 2)
    with pytest.raises(OSError, match="EIO"):
        directory.create_partitions("orders", [0, 1, 2], ID)
    directory.create_partitions("orders", [0, 1, 2], ID)
    filesystem.fail_at("rename", 2)
    with pytest.raises(OSError, match="EIO"):
        directory.delete_topic("orders")
    killed(memory, directory)
    assert names_of(memory, "orders") == [
        "orders-0.000102030405060708090a0b0c0d0e0f-delete", "orders-1", "orders-2",
    ]  # fmt: skip


def test_an_old_topic_of_kafka_has_no_id_until_it_is_deleted(place: Place) -> None:
    opened(place).close()
    for partition in (0, 1):
        place.filesystem.make_directory(f"{place.directory}/orders-{partition}")
        place.write(f"orders-{partition}/00000000000000000000.log", batch(b"x"))
    directory = opened(place)
    assert directory.topics["orders"].topic_id == bytes(16)
    directory.take_id("orders", ID)
    directory.close()
    directory = opened(place)
    assert directory.topics["orders"].topic_id == bytes(16), "its files are left as they are"
    directory.take_id("orders", ID)
    directory.delete_topic("orders")
    directory.close()
    directory = opened(place)
    assert (directory.topics, directory.deleted_topics) == ({}, {ID: "orders"})
    directory.close()
