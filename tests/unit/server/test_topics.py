"""Topics on disk: restarts, settings, producer ids, damage and a full disk.

Rules: [data-plane/producer-ids], [data-plane/epoch-after-cut], [topics/offsets-topic],
[topics/one-change-at-a-time], [topics/partition-states], [topics/settings-file].
"""

import pytest

from coterie.coordinator.topic_image import TopicChange, TopicImage
from coterie.protocol.errors import ErrorCode
from coterie.server.broker import Broker
from coterie.server.data_place import IN_MEMORY
from coterie.server.metadata.settings_file import FOREIGN_PRODUCER_IDS
from coterie.server.metadata.stored_settings import SETTINGS_FILE
from coterie.server.metadata.topic_rules import TopicRefused
from coterie.storage.errors import CorruptLog
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.offset_checkpoints import RECOVERY_POINT_FILE
from tests.unit.server.changed_now import add_partitions, delete, set_broker_settings
from tests.unit.server.manual import Client, logged, make_broker
from tests.unit.server.produced import batch, fetch_request, produce, values_of


def restarted(broker: Broker) -> Broker:
    """Start another broker with the same data directory."""
    filesystem = broker._data.files.filesystem
    broker._data.close()
    return make_broker(filesystem=filesystem)


def test_topics_settings_and_records_survive_a_restart() -> None:
    broker = make_broker()
    topic = broker.controller.create("orders", 3, {"retention.ms": "5"})
    produce(Client(broker), batch(b"a"), topic="orders", partition=2)
    again = restarted(broker)
    found = again.topics.by_name["orders"]
    assert (found.topic_id, len(found.partitions)) == (topic.topic_id, 3)
    assert found.config.overrides == {"retention.ms": "5"}
    assert again.image.cluster_id == broker.image.cluster_id
    answer = Client(again).call(fetch_request((2, 0), topic="orders"), 12)
    assert values_of(answer.responses[0].partitions[0].records) == [b"a"]
    assert len(again.topics.by_name["__consumer_offsets"].partitions) == 4


def test_image_of_the_topics_follows_their_changes() -> None:
    """A change is in the image first; then those who want to know are told."""
    broker = make_broker()
    published = broker.topics.published
    image, changes, version = published.image, list[TopicChange](), published.image.version
    published.when_changed.append(changes.append)
    assert broker.coordinator.topics is image
    topic = broker.controller.create("orders", 2, {})
    created = TopicImage("orders", topic.topic_id, 2)
    assert image.by_name["orders"] == image.by_id[topic.topic_id] == created
    add_partitions(broker, topic, 5)
    grown = created._replace(partitions=5)
    assert image.by_name["orders"] == image.by_id[topic.topic_id] == grown
    assert changes == [TopicChange(None, created), TopicChange(created, grown)]
    broker.delete_topic(topic)
    assert "orders" not in image.by_name
    assert topic.topic_id not in image.by_id
    assert image.version == version + 3
    again = restarted(broker).topics
    assert again.published.image.by_name.keys() == again.by_name.keys()


def test_deleted_topics_stay_deleted() -> None:
    broker = make_broker()
    delete(broker, broker.controller.create("orders", 1, {"retention.ms": "5"}))
    again = restarted(broker)
    assert "orders" not in again.topics.by_name
    assert again.controller.create("orders", 1, {}).config.overrides == {}


def test_number_of_group_partitions_is_that_of_the_directory() -> None:
    """With another number every group would be looked for in another partition."""
    broker = make_broker({"offsets.topic.num.partitions": "7"})
    again = restarted(broker)
    assert len(again.topics.by_name["__consumer_offsets"].partitions) == 7
    assert again.coordinator.config.offsets_topic_num_partitions == 7


def test_altered_settings_of_the_broker_survive_a_restart() -> None:
    broker = make_broker()
    set_broker_settings(broker, {"message.max.bytes": "99"}, {})
    assert restarted(broker).config.get_int("message.max.bytes") == 99


def test_producer_ids_are_not_repeated_after_a_restart() -> None:
    broker = make_broker()
    given = [broker.settings.new_producer_id() for _ in range(3)]
    assert restarted(broker).settings.new_producer_id() > max(given)


@pytest.mark.parametrize("is_unknown", [True, False])
def test_producer_ids_of_another_broker_are_not_given_again(is_unknown: bool) -> None:
    """[topics/foreign-directories]: Kafka made the directory, or has used it since we did."""
    broker = make_broker()
    assert broker.settings.new_producer_id() == 0
    produce(Client(broker), batch(b"a"))
    filesystem = broker._data.files.filesystem
    broker._data.close()
    if is_unknown:
        filesystem.remove(f"memory/{SETTINGS_FILE}")
    else:
        # As Kafka writes it: without a checksum.
        file = filesystem.create(f"memory/{RECOVERY_POINT_FILE}")
        file.write(0, b"0\n1\nt 0 1\n")
    given = []
    for _ in range(2):
        again = make_broker(filesystem=filesystem)
        given += [again.settings.new_producer_id() for _ in range(2)]
        again._data.close()
    block = FOREIGN_PRODUCER_IDS + 1_000
    assert given == [FOREIGN_PRODUCER_IDS, FOREIGN_PRODUCER_IDS + 1, block, block + 1]


def test_log_is_opened_at_its_first_use() -> None:
    broker = make_broker()
    topic = broker.controller.create("orders", 3, {})
    produce(Client(broker), batch(b"a"), topic="orders", partition=1)
    assert [each.opened_log is not None for each in topic.partitions] == [False, True, False]


def test_interrupted_creation_is_completed() -> None:
    filesystem = MemoryFileSystem()
    broker = make_broker(filesystem=filesystem)
    broker.controller.create("orders", 3, {})
    broker._data.close()
    filesystem.remove("memory/orders-1/partition.metadata")
    filesystem.remove_directory("memory/orders-1")
    again = make_broker(filesystem=filesystem)
    assert len(again.topics.by_name["orders"].partitions) == 3
    assert produce(Client(again), batch(b"a"), topic="orders", partition=1).error_code == 0


def test_damaged_settings_prevent_the_start() -> None:
    filesystem = MemoryFileSystem()
    make_broker(filesystem=filesystem)._data.close()
    filesystem.create(f"memory/{SETTINGS_FILE}").write(0, b"{ not json")
    with pytest.raises(CorruptLog, match=SETTINGS_FILE):
        make_broker(filesystem=filesystem)
    # The directory was unlocked, so it can be used once the file is repaired.
    filesystem.create(f"memory/{SETTINGS_FILE}").write(0, b'{"version": 1}')
    make_broker(filesystem=filesystem)


def test_damaged_partition_fails_alone() -> None:
    filesystem = MemoryFileSystem()
    broker = make_broker(filesystem=filesystem)
    broker.controller.create("orders", 2, {})
    client = Client(broker)
    for partition in (0, 1):
        produce(client, batch(b"a"), topic="orders", partition=partition)
    broker._data.close()
    damaged = "memory/orders-0/00000000000000000000.log"
    filesystem.create(damaged).write(0, b"nonsense")
    again = Client(make_broker(filesystem=filesystem))
    refused = produce(again, batch(b"b"), topic="orders", partition=0)
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(again, batch(b"b"), topic="orders", partition=1).error_code == 0
    answer = again.call(fetch_request((0, 0), topic="orders"), 12)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (line,) = logged(again.broker, "partition failed")
    assert damaged in line["error"]


def test_topic_is_refused_when_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = make_broker()

    def full(_filesystem: MemoryFileSystem, _path: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(MemoryFileSystem, "make_directory", full)
    with pytest.raises(TopicRefused) as caught:
        broker.controller.create("orders", 1, {})
    assert caught.value.error == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert "orders" not in broker.topics.by_name
    broker.controller.create("orders", 1, {})


def test_data_in_memory() -> None:
    assert make_broker()._data.path == "memory"
    assert IN_MEMORY == ":memory:"


def test_topics_of_a_kafka_directory_are_kept_without_limit() -> None:
    """Their settings are in Kafka's metadata log, and need not be the defaults."""
    filesystem = MemoryFileSystem()
    broker = make_broker(filesystem=filesystem)
    broker.controller.create("orders", 1, {})
    broker._data.close()
    filesystem.remove(f"memory/{SETTINGS_FILE}")
    for _ in range(2):
        again = make_broker(filesystem=filesystem)
        assert again.topics.by_name["__consumer_offsets"].config.compact
        orders = again.topics.by_name["orders"].config
        assert orders.overrides == {"retention.ms": "-1"}
        assert not orders.compact
        # A topic that is created by this broker has the defaults.
        if "bills" not in again.topics.by_name:
            again.controller.create("bills", 1, {})
        assert again.topics.by_name["bills"].config.overrides == {}
        again._data.close()
