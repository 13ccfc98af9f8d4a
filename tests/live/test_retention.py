"""Retention with real clients: old records are deleted by time and by size; offsets are kept."""

from collections.abc import Callable

import confluent_kafka
import confluent_kafka.admin

from tests.live import libraries
from tests.live.broker_process import BrokerProcess
from tests.live.conftest import create_topic
from tests.live.deadlines import eventually, holds_for
from tests.live.records import (
    MEBIBYTE,
    READ_LIMIT_S,
    log_bytes,
    offset_range,
    produce,
    read_partition,
)

SHORT_INTERVALS = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "0"}
ROWS = [(b"key", b"%06d" % number + b"." * 1000) for number in range(4000)]


def wait_all_expired(server: BrokerProcess, topic: str) -> None:
    """Wait until retention has deleted all of ROWS."""
    all_expired = (len(ROWS), len(ROWS))
    eventually(lambda: offset_range(server.bootstrap, topic) == all_expired, "all records expired")


def set_retention(server: BrokerProcess, topic: str, retention_ms: str) -> None:
    """Set the retention of a topic by time."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": server.bootstrap})
    change = confluent_kafka.admin.ConfigResource(
        confluent_kafka.admin.ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[
            confluent_kafka.admin.ConfigEntry(
                "retention.ms",
                retention_ms,
                incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET,
            )
        ],
    )
    for result in admin.incremental_alter_configs([change]).values():
        result.result(READ_LIMIT_S)


def test_retention_by_time_deletes_all_records_and_offsets_continue(
    start_broker: Callable[..., BrokerProcess], name: str, library: libraries.Library
) -> None:
    server = start_broker(SHORT_INTERVALS)
    settings = {"retention.ms": "2000", "segment.bytes": str(MEBIBYTE)}
    create_topic(server.bootstrap, name, 1, settings)
    produce(server.bootstrap, name, ROWS)
    wait_all_expired(server, name)
    # The files are deleted after the start of the log has moved.
    eventually(lambda: log_bytes(server.data_dir, name) == 0, "the segments deleted")
    server.kill()
    server.start()
    assert offset_range(server.bootstrap, name) == (len(ROWS), len(ROWS))
    # Else the next record might expire before it is read.
    set_retention(server, name, "-1")
    produce(server.bootstrap, name, [(b"key", b"after")])
    read = library.reader(
        server.bootstrap, libraries.Reading(f"{name}-group", name, fixed_partitions=(0,))
    )
    try:
        (record,) = read.read(1)
        assert record.value == b"after"
    finally:
        read.close()


def test_retention_by_size_keeps_new_records(
    start_broker: Callable[..., BrokerProcess], name: str
) -> None:
    server = start_broker(SHORT_INTERVALS)
    settings = {"retention.bytes": str(2 * MEBIBYTE), "segment.bytes": str(MEBIBYTE)}
    create_topic(server.bootstrap, name, 1, settings)
    produce(server.bootstrap, name, ROWS)
    eventually(
        lambda: log_bytes(server.data_dir, name) <= 3 * MEBIBYTE, "the oldest segments deleted"
    )
    start, end = offset_range(server.bootstrap, name)
    assert 0 < start < end == len(ROWS)
    found = read_partition(server.bootstrap, name)
    assert [row.offset for row in found] == list(range(start, end))
    assert [row.value for row in found] == [value for _, value in ROWS[start:]]
    assert server.stop() == 0
    server.start()
    assert offset_range(server.bootstrap, name) == (start, end)


def test_unlimited_retention_keeps_all_until_a_limit_is_set(
    start_broker: Callable[..., BrokerProcess], name: str
) -> None:
    """A retention of -1 is unlimited; a changed setting takes effect at the next check."""
    server = start_broker(SHORT_INTERVALS)
    settings = {"retention.ms": "-1", "segment.bytes": str(MEBIBYTE)}
    create_topic(server.bootstrap, name, 1, settings)
    produce(server.bootstrap, name, ROWS)
    holds_for(lambda: offset_range(server.bootstrap, name)[0] == 0, "all is kept", 1.0)
    set_retention(server, name, "1000")
    wait_all_expired(server, name)
