"""Creating, altering and deleting topics while something fails, or the broker dies.

`tests/crash` interrupts them everywhere; these are the rules it checks, one by one.

Rules: [topics/one-change-at-a-time], [topics/whole-deletion], [topics/settings-file],
[topics/foreign-directories].
"""

import errno

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.server.broker import Broker
from coterie.server.metadata.stored_settings import SETTINGS_FILE, read_settings
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.changed_now import set_overrides
from tests.unit.server.groups import commit, committed
from tests.unit.server.manual import (
    COMMIT,
    Client,
    log_of,
    loop_of,
    make_broker,
    run,
    wait_for_disk,
)
from tests.unit.server.produced import batch, fetch_request, produce, values_of

SETTINGS_PATH = f"memory/{SETTINGS_FILE}"
PRECIOUS = {"retention.ms": "-1"}
SHORT = {"retention.ms": "1"}


def killed(broker: Broker) -> FileSystem:
    """Let the process die; return what it leaves."""
    filesystem = broker._data.files.filesystem
    broker._data._lock.release()
    return getattr(filesystem, "filesystem", filesystem)


def read(filesystem: FileSystem, path: str) -> bytes:
    file = filesystem.open(path)
    return file.read(0, file.size())


def delete(client: Client, name: str = "t") -> int:
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=name)], timeout_ms=1000)
    return int(client.call(request, 6).responses[0].error_code)


def create(client: Client, settings: dict[str, str], name: str = "t", partitions: int = 2) -> int:
    topic = CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreateTopicsRequestConfig(name=key, value=settings[key]) for key in settings],
    )
    return int(client.call(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code)


# --- settings -------------------------------------------------------------------------------------


def test_settings_of_a_deleted_topic_never_reach_the_next_one_of_its_name() -> None:
    broker = make_broker()
    broker.controller.create("t", 1, SHORT)
    before = read(broker._data.files.filesystem, SETTINGS_PATH)
    broker.delete_topic(broker.topics.by_name["t"])
    filesystem = killed(broker)
    # The kill came before the file was written again.
    filesystem.create(SETTINGS_PATH).write(0, before)
    broker = make_broker(filesystem=filesystem)
    assert broker.controller.create("t", 1, {}).config.overrides == {}
    assert produce(Client(broker), batch(b"acknowledged")).error_code == 0
    for _ in range(2):
        broker = make_broker(filesystem=killed(broker))
        assert broker.topics.by_name["t"].config.overrides == {}
    found = Client(broker).call(fetch_request((0, 0)), 12).responses[0].partitions[0]
    assert values_of(found.records) == [b"acknowledged"]


def test_settings_by_name_of_an_older_version_are_taken_once() -> None:
    """They are dropped at once for topics that do not exist."""
    filesystem = MemoryFileSystem()
    broker = make_broker(filesystem=filesystem)
    broker.controller.create("t", 1, {})
    killed(broker)
    text = b'{"version": 1, "next_producer_id": 5, "topics": {"t": {"retention.ms": "7"},'
    text += b' "gone": {"retention.ms": "1"}}}'
    filesystem.create(SETTINGS_PATH).write(0, text)
    broker = make_broker(filesystem=filesystem)
    assert broker.topics.by_name["t"].config.overrides == {"retention.ms": "7"}
    assert broker.settings.new_producer_id() == 5
    broker.controller.create("gone", 1, {})
    broker = make_broker(filesystem=killed(broker))
    assert broker.topics.by_name["t"].config.overrides == {"retention.ms": "7"}
    assert broker.topics.by_name["gone"].config.overrides == {}


def test_settings_by_name_of_topics_that_do_not_exist_are_dropped_from_the_file() -> None:
    filesystem = MemoryFileSystem()
    killed(make_broker(filesystem=filesystem))
    filesystem.create(SETTINGS_PATH).write(0, b'{"version": 1, "topics": {"gone": {}}}')
    killed(make_broker(filesystem=filesystem))
    stored = read_settings(filesystem, "memory")
    assert stored is not None
    assert stored.by_name == {}


@pytest.mark.parametrize("place", ["-1", "retention", "next_producer_id", "crc32"])
def test_changed_settings_are_damage(place: str) -> None:
    broker = make_broker()
    broker.controller.create("t", 1, PRECIOUS)
    filesystem = killed(broker)
    text = read(filesystem, SETTINGS_PATH).decode()
    at = text.index(place)
    changed = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
    filesystem.create(SETTINGS_PATH).write(0, changed.encode())
    with pytest.raises(CorruptLog, match=SETTINGS_FILE):
        make_broker(filesystem=filesystem)


def test_a_topic_never_exists_without_its_settings() -> None:
    for failing in range(1, 30):
        faulty = FaultyFileSystem(MemoryFileSystem())
        broker = make_broker(filesystem=faulty)
        faulty.fail_from("writing", failing)
        is_created = create(Client(broker), PRECIOUS) == ErrorCode.NONE
        faulty.fail_at("any", 0)
        again = make_broker(filesystem=killed(broker))
        found = again.topics.by_name.get("t")
        if found is not None:
            assert found.config.overrides == PRECIOUS
            assert len(found.partitions) == 2
        if is_created:
            assert found is not None
            return
    raise AssertionError("the creation never succeeded")


@pytest.mark.parametrize("failing", range(1, 4))
def test_settings_that_cannot_be_stored_do_not_change(failing: int) -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    broker = make_broker(filesystem=faulty)
    client = Client(broker)
    broker.controller.create("t", 1, PRECIOUS)
    change = IncrementalAlterConfigsRequestConfig(
        name="retention.ms", config_operation=SET, value="1"
    )
    for resource_type, name in ((2, "t"), (4, "")):
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=resource_type, resource_name=name, configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        faulty.fail_at("writing", failing, errno.ENOSPC)
        (answer,) = client.call(request, 1).responses
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.topics.by_name["t"].config.overrides == PRECIOUS
    assert broker.config.cluster_defaults.keys() == {"min.insync.replicas"}


def test_producer_ids_that_could_not_be_reserved_are_not_used() -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    client = Client(make_broker(filesystem=faulty))
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    for failing in (1, 2, 3):
        faulty.fail_at("writing", failing)
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert client.call(request, 4).error_code == error
    given = client.call(request, 4).producer_id
    again = Client(make_broker(filesystem=killed(client.broker)))
    assert again.call(request, 4).producer_id > given


def test_an_old_topic_of_kafka_keeps_the_id_it_was_given() -> None:
    filesystem = MemoryFileSystem()
    broker = make_broker(filesystem=filesystem)
    broker.controller.create("t", 1, {})
    assert produce(Client(broker), batch(b"a")).error_code == 0
    killed(broker)
    filesystem.remove("memory/t-0/partition.metadata")
    broker = make_broker(filesystem=filesystem)
    given = broker.topics.by_name["t"].topic_id
    set_overrides(broker, broker.topics.by_name["t"], SHORT)
    set_overrides(broker, broker.topics.by_name["t"], {})
    broker = make_broker(filesystem=killed(broker))
    assert broker.topics.by_name["t"].topic_id == given
    assert broker.topics.by_name["t"].config.overrides == {}


# --- deletion -------------------------------------------------------------------------------------


def test_offsets_of_a_topic_whose_deletion_was_interrupted_are_deleted_at_the_start() -> None:
    broker = make_broker()
    client = Client(broker)
    create(client, {})
    assert client.call(commit(5), 8).topics[0].partitions[0].error_code == 0
    # The process dies after the directories were renamed.
    broker._data.delete_topic("t")
    filesystem = killed(broker)
    broker = make_broker(filesystem=filesystem, load=False)
    client = Client(broker)
    assert create(client, {}) == ErrorCode.TOPIC_ALREADY_EXISTS
    run(broker, broker.groups.load())
    assert create(client, {}) == 0
    assert committed(client) == [-1]
    client.loop.advance(1)
    assert broker._data.deleted_topics == {}
    assert committed(Client(make_broker(filesystem=killed(broker)))) == [-1]


def test_deletion_during_the_load_deletes_the_offsets_when_they_are_loaded() -> None:
    broker = make_broker()
    client = Client(broker)
    create(client, {})
    client.call(commit(5), 8)
    broker = make_broker(filesystem=killed(broker), load=False)
    client = Client(broker)
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")], timeout_ms=1000)
    client.send(request, 6)
    client.loop.turn()
    assert client.answers() == []
    run(broker, broker.groups.load())
    client.loop.turn()
    ((_, answer),) = client.answers()
    assert answer.responses[0].error_code == 0
    create(client, {})
    assert committed(client) == [-1]


def test_deletion_is_answered_when_the_deletion_of_the_offsets_is_durable() -> None:
    broker = make_broker(flush=COMMIT)
    client = Client(broker)
    create(client, {})
    client.send(commit(5), 8)
    wait_for_disk(client)
    client.answers()
    other = Client(broker)
    names = [DeleteTopicsRequestTopic(name="t"), DeleteTopicsRequestTopic(name="unknown")]
    other.send(DeleteTopicsRequest(topics=names, timeout_ms=1000), 6)
    assert other.answers() == []
    # No other client can use the name before that.
    assert create(client, {}) == ErrorCode.TOPIC_ALREADY_EXISTS
    wait_for_disk(other)
    ((_, answer),) = other.answers()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in answer.responses] == [0, unknown]
    assert create(client, {}) == 0


def test_deletion_that_did_not_begin_is_refused() -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    broker = make_broker(filesystem=faulty)
    client = Client(broker)
    create(client, {})
    produce(client, batch(b"kept"))
    faulty.fail_at("rename", 1)
    assert delete(client) == ErrorCode.KAFKA_STORAGE_ERROR
    found = client.call(fetch_request((0, 0)), 12).responses[0].partitions[0]
    assert values_of(found.records) == [b"kept"]
    assert delete(client) == 0


def test_deletion_that_was_interrupted_by_an_error_is_refused_and_finished_later() -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    broker = make_broker(filesystem=faulty)
    client = Client(broker)
    create(client, {})
    client.call(commit(5), 8)
    produce(client, batch(b"old"), partition=1)
    faulty.fail_at("rename", 2)
    assert delete(client) == ErrorCode.KAFKA_STORAGE_ERROR
    assert delete(client) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert create(client, {}) == 0
    assert committed(client) == [-1]
    found = client.call(fetch_request((1, 0)), 12).responses[0].partitions[0]
    assert values_of(found.records) == []


def test_files_that_cannot_be_removed_are_left_to_the_next_start() -> None:
    faulty = FaultyFileSystem(MemoryFileSystem())
    broker = make_broker(filesystem=faulty)
    client = Client(broker)
    create(client, {})
    faulty.fail_at("remove", 1)
    assert delete(client) == 0
    client.loop.advance(1)
    assert "files of deleted topics left" in [event for _, event, _ in log_of(broker).lines]
    assert create(client, {}) == 0
    again = make_broker(filesystem=killed(broker))
    assert len(again.topics.by_name["t"].partitions) == 2
    again.maintenance.start()
    loop_of(again).advance(10)
    assert again._data.deleted_topics == {}
    names = again._data.files.filesystem.list("memory")
    assert not [name for name in names if name.endswith("-delete")]
