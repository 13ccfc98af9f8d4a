"""Data directories of real Kafkas hold the groups and offsets that Kafka itself reported.

`tests/golden/directories/README.md` says how they were made: of each version one was stopped in
order and one was killed.
"""

import json
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coterie.coordinator.groups.classic.group_record import restore
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.states import GroupState
from coterie.coordinator.groups.recorded.records import RecordedGroups
from coterie.coordinator.groups.replay import LoggedState, replay_encoded
from coterie.coordinator.groups.served_types import SERVED_TYPES
from coterie.coordinator.kernel.loading import NewestRecords
from coterie.coordinator.kernel.machine import OpenRecord
from coterie.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from coterie.protocol.messages.log_records import GROUP_RECORDS
from coterie.protocol.records import iterate_batches
from coterie.server.coordinators.loading import LogReplay
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import CorruptLog
from coterie.storage.log_config import LogConfig
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.producer_snapshots import decode_snapshot
from coterie.storage.producer_state import ENTRY
from coterie.storage.torn_tail import TailTrust
from tests.unit.coordinator.harness import logged_generations

GOLDEN = Path(__file__).parents[2] / "golden" / "directories"
NAMES = sorted(path.name.removesuffix(".tar.gz") for path in GOLDEN.glob("*.tar.gz"))
COMPACTED = LogConfig(compacted=True)


class Answer(NamedTuple):
    """The groups in a directory, in the form in which Kafka's responses were stored."""

    groups: dict[str, dict[str, Any]]
    skipped: int
    consumer_groups: dict[str, ConsumerGroup]


def unpacked(name: str) -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/kafka")
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
        for member in archive:
            path = "/kafka/" + member.name.removeprefix("./")
            if member.isdir():
                filesystem.make_directory(path)
            else:
                content = archive.extractfile(member)
                filesystem.create(path).write(0, content.read() if content is not None else b"")
    return filesystem


def opened(filesystem: MemoryFileSystem) -> DataDirectory:
    return DataDirectory.open(
        filesystem, "/kafka", node_id=1, cluster_id="none", directory_id="none"
    )


def groups_of(directory: DataDirectory) -> Answer:
    groups: dict[str, dict[str, Any]] = {}
    skipped = 0
    consumer_groups: dict[str, ConsumerGroup] = {}
    for partition in sorted(directory.topics["__consumer_offsets"].partitions):
        state = SERVED_TYPES.logged_state()

        def apply(key: bytes | None, value: bytes | None, state: LoggedState = state) -> None:
            assert key is not None
            assert replay_encoded(state, key, value)

        open_records: list[OpenRecord] = []
        log = directory.open_log("__consumer_offsets", partition, COMPACTED)
        reading = LogReplay(log, NewestRecords(GROUP_RECORDS), apply, open_records.append)
        while reading.step():
            pass
        skipped += reading.reader.skipped.total()
        consumer = state.of_types[ConsumerGroup.TYPE]
        assert isinstance(consumer, RecordedGroups)
        consumer_groups |= consumer.groups
        for group_id in sorted(logged_generations(state).keys() | state.offsets.keys()):
            groups[group_id] = _group_facts(group_id, state)
    return Answer(groups, skipped, consumer_groups)


def _group_facts(group_id: str, state: LoggedState) -> dict[str, Any]:
    group = restore(group_id, logged_generations(state).get(group_id))
    members = []
    for member in group.members.values():
        assignment = ConsumerProtocolAssignment.decode(member.assignment[2:], 0)
        members.append(
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.client_host,
                "instance": member.group_instance_id,
                "assignment": sorted(
                    [each.topic, partition]
                    for each in assignment.assigned_partitions
                    for partition in each.partitions
                ),
            }
        )
    offsets = [
        [topic, partition, value.offset, value.metadata]
        for topic, partitions in state.offsets.get(group_id, {}).items()
        for partition, value in partitions.items()
    ]
    return {
        "state": str(group.state).upper(),
        "assignor": group.protocol_name or "",
        "generation": group.generation_id,
        "members": sorted(members, key=lambda member: str(member["member_id"])),
        "offsets": sorted(offsets),
    }


def expected_of(name: str) -> dict[str, Any]:
    reported: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return reported


def check_groups(name: str, found: Answer) -> None:
    reported = expected_of(name)
    # Groups of the new protocol (KIP-848) have their members by record, not by generation.
    new_style = reported.get("consumer_groups", [])
    assert found.groups.keys() == reported["groups"].keys()
    for group_id, expected in reported["groups"].items():
        ours = found.groups[group_id]
        if group_id in new_style:
            assert ours["offsets"] == expected["offsets"]
            check_consumer_group(found.consumer_groups[group_id], expected)
            continue
        if expected["generation"] is None:
            ours = ours | {"generation": None}
        assert ours == expected, group_id
    assert found.skipped == 0
    assert sorted(found.consumer_groups) == sorted(new_style)


def check_consumer_group(group: ConsumerGroup, expected: dict[str, Any]) -> None:
    """Check the members and how many partitions each has; their topics are known by id alone."""
    assert group.derived_state() is GroupState.STABLE
    found = {member.member_id: member for member in group.members.values()}
    assert found.keys() == {each["member_id"] for each in expected["members"]}
    for each in expected["members"]:
        ours = found[each["member_id"]]
        assert (ours.client_id, ours.client_host) == (each["client_id"], each["host"])
        indexes = sorted(index for owned in ours.assigned.values() for index in owned)
        assert indexes == sorted(index for _, index in each["assignment"])


def test_the_directories_are_there() -> None:
    versions = ["2.6.3", "2.8.2", "4.3.1"]
    assert [f"kafka-{version}-{how}" for version in versions for how in ("killed", "stopped")] == (
        NAMES
    )


@pytest.mark.parametrize("name", NAMES)
def test_groups_and_offsets_are_those_that_kafka_reported(name: str) -> None:
    filesystem = unpacked(name)
    directory = opened(filesystem)
    assert directory.last_stop.clean == name.endswith("stopped")
    check_groups(name, groups_of(directory))
    directory.close()
    # Once more, as a directory that we have closed.
    directory = opened(filesystem)
    assert directory.last_stop.clean
    check_groups(name, groups_of(directory))
    directory.close()


@pytest.mark.parametrize("name", NAMES)
def test_every_record_of_the_topics_is_read(name: str) -> None:
    directory = opened(unpacked(name))
    assert {topic: len(found.partitions) for topic, found in directory.topics.items()} == {
        "__consumer_offsets": 4, "__transaction_state": 2, "orders": 3, "payments": 2, "zipped": 1,
    }  # fmt: skip
    ends = {}
    for topic in ("orders", "payments", "zipped"):
        for partition in directory.topics[topic].partitions:
            log = directory.open_log(topic, partition)
            assert log.tail_cut is None
            headers = [each for data in log.chunks() for _, each in iterate_batches(data)]
            assert headers[-1].next_offset == log.log_end_offset
            ends[topic, partition] = log.log_end_offset
    # There are twenty records, and a record and a marker of each of three transactions.
    assert ends == {
        ("orders", 0): 20, ("orders", 1): 20, ("orders", 2): 20,
        ("payments", 0): 26, ("payments", 1): 20, ("zipped", 0): 100,
    }  # fmt: skip
    directory.close()


def test_after_a_clean_stop_of_kafka_a_bad_batch_is_damage() -> None:
    filesystem = unpacked("kafka-4.3.1-stopped")
    path = "/kafka/__consumer_offsets-1/00000000000000000000.log"
    filesystem.open(path).truncate(filesystem.size(path) - 1)
    directory = opened(filesystem)
    assert directory.recovery_point("__consumer_offsets", 1) == 18
    with pytest.raises(CorruptLog, match="recovery point"):
        directory.open_log("__consumer_offsets", 1, COMPACTED)
    directory.close()


def test_after_a_kill_of_kafka_the_end_may_be_incomplete() -> None:
    filesystem = unpacked("kafka-4.3.1-killed")
    path = "/kafka/__consumer_offsets-1/00000000000000000000.log"
    filesystem.open(path).truncate(filesystem.size(path) - 1)
    directory = opened(filesystem)
    assert directory.last_stop.trust(("__consumer_offsets", 1)) is TailTrust.POWER_LOST_UNSYNCED
    log = directory.open_log("__consumer_offsets", 1, COMPACTED)
    assert log.tail_cut is not None
    assert log.log_end_offset in range(12, 18)
    directory.close()


def test_the_check_sees_a_lost_offset() -> None:
    """The canary: groups that differ in one commit are not equal."""
    directory = opened(unpacked("kafka-2.8.2-stopped"))
    found = groups_of(directory)
    directory.close()
    found.groups["manual"]["offsets"].pop()
    with pytest.raises(AssertionError, match="manual"):
        check_groups("kafka-2.8.2-stopped", found)


def files_in(filesystem: MemoryFileSystem, suffix: str) -> dict[str, bytes]:
    """Return the files of all partitions that end with `suffix`, by path."""
    found = {}
    for directory in filesystem.list("/kafka"):
        if not directory.rpartition("-")[2].isdigit():
            continue
        for name in filesystem.list(f"/kafka/{directory}"):
            if name.endswith(suffix):
                path = f"/kafka/{directory}/{name}"
                file = filesystem.open(path)
                found[path] = file.read(0, file.size())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_producers_of_kafka_are_those_that_its_batches_have(name: str) -> None:
    """Snapshots and transaction indexes are made anew from the log, and compared with Kafka's."""
    filesystem = unpacked(name)
    snapshots = files_in(filesystem, ".snapshot")
    indexes = {path: data for path, data in files_in(filesystem, ".txnindex").items() if data}
    for path in [*snapshots, *files_in(filesystem, ".txnindex")]:
        filesystem.remove(path)
    directory = opened(filesystem)
    compared = 0
    for topic, on_disk in directory.topics.items():
        for partition in on_disk.partitions:
            log = directory.open_log(topic, partition, COMPACTED)
            path = f"{log.directory}/{log.log_end_offset:020d}.snapshot"
            if path in snapshots:
                entries = decode_snapshot(snapshots[path])
                assert entries is not None
                of_kafka = {fields[0]: fields for fields in ENTRY.iter_unpack(entries)}
                assert {entry.producer_id: entry for entry in log.producers} == of_kafka
                compared += 1
    # A killed Kafka has not written a snapshot at the end of each log.
    assert "killed" in name or compared == len({path.rpartition("/")[0] for path in snapshots})
    assert files_in(filesystem, ".txnindex") == indexes
    directory.close()


@pytest.mark.parametrize("name", NAMES)
def test_producers_of_kafka_are_loaded(name: str) -> None:
    filesystem = unpacked(name)
    indexes = {path: data for path, data in files_in(filesystem, ".txnindex").items() if data}
    directory = opened(filesystem)
    log = directory.open_log("payments", 0, LogConfig())
    assert log.last_stable_offset == log.log_end_offset
    assert len(log.producers) > 0
    directory.close()
    written = {path: data for path, data in files_in(filesystem, ".txnindex").items() if data}
    assert written == indexes
