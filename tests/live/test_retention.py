"""Retention under real clients: old records go by time and size, offsets stay what they were."""

from collections.abc import Callable

import confluent_kafka
import confluent_kafka.admin

from tests.live import libraries
from tests.live.broker_process import BrokerProcess
from tests.live.conftest import create_topic
from tests.live.deadlines import eventually, holds_for
from tests.live.test_compaction import MEBIBYTE, READ_LIMIT_S, log_bytes, produce, read_all

QUICK = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "0"}
ROWS = [(b"key", b"%06d" % number + b"." * 1000) for number in range(4000)]


def watermarks(bootstrap: str, topic: str) -> tuple[int, int]:
    """The start and end offset of partition 0."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "watermarks"})
    try:
        at = confluent_kafka.TopicPartition(topic, 0)
        low, high = consumer.get_watermark_offsets(at, timeout=READ_LIMIT_S)
        return low, high
    finally:
        consumer.close()


def test_by_time_everything_goes_and_offsets_go_on(
    start_broker: Callable[..., BrokerProcess], name: str, library: libraries.Library
) -> None:
    server = start_broker(QUICK)
    settings = {"retention.ms": "2000", "segment.bytes": str(MEBIBYTE)}
    create_topic(server.bootstrap, name, 1, settings)
    produce(server.bootstrap, name, ROWS)
    eventually(
        lambda: watermarks(server.bootstrap, name) == (len(ROWS), len(ROWS)), "all records expired"
    )
    assert log_bytes(server.data_dir, name) == 0
    server.kill()
    server.start()
    assert watermarks(server.bootstrap, name) == (len(ROWS), len(ROWS))
    produce(server.bootstrap, name, [(b"key", b"after")])
    read = library.reader(
        server.bootstrap, libraries.Reading(f"{name}-group", name, fixed_partitions=(0,))
    )
    try:
        (record,) = read.read(1)
        assert record.value == b"after"
    finally:
        read.close()


def test_by_size_the_newest_stay(start_broker: Callable[..., BrokerProcess], name: str) -> None:
    server = start_broker(QUICK)
    settings = {"retention.bytes": str(2 * MEBIBYTE), "segment.bytes": str(MEBIBYTE)}
    create_topic(server.bootstrap, name, 1, settings)
    produce(server.bootstrap, name, ROWS)
    eventually(
        lambda: log_bytes(server.data_dir, name) <= 3 * MEBIBYTE, "the oldest segments are gone"
    )
    start, end = watermarks(server.bootstrap, name)
    assert 0 < start < end == len(ROWS)
    found = read_all(server.bootstrap, name)
    assert [offset for _, _, offset in found] == list(range(start, end))
    assert [value for _, value, _ in found] == [value for _, value in ROWS[start:]]
    assert server.stop() == 0
    server.start()
    assert watermarks(server.bootstrap, name) == (start, end)


def test_without_a_limit_nothing_goes_until_the_limit_is_set(
    start_broker: Callable[..., BrokerProcess], name: str
) -> None:
    """-1 is for ever; a topic's setting that is changed counts from the next look on."""
    server = start_broker(QUICK)
    settings = {"retention.ms": "-1", "segment.bytes": str(MEBIBYTE)}
    create_topic(server.bootstrap, name, 1, settings)
    produce(server.bootstrap, name, ROWS)
    holds_for(lambda: watermarks(server.bootstrap, name)[0] == 0, "all is kept", 1.0)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": server.bootstrap})
    change = confluent_kafka.admin.ConfigResource(
        confluent_kafka.admin.ConfigResource.Type.TOPIC,
        name,
        incremental_configs=[
            confluent_kafka.admin.ConfigEntry(
                "retention.ms",
                "1000",
                incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET,
            )
        ],
    )
    for answer in admin.incremental_alter_configs([change]).values():
        answer.result(READ_LIMIT_S)
    eventually(
        lambda: watermarks(server.bootstrap, name) == (len(ROWS), len(ROWS)), "all records expired"
    )
