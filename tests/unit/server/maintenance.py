"""A broker whose background work runs on a manual event loop, for the tests of that work."""

import time
from collections.abc import Callable
from typing import Any

from coterie.protocol.records import encode_batch
from coterie.server.broker import Broker
from coterie.storage.log import Log
from tests.record_batches import pairs_in
from tests.unit.server.manual import loop_of, make_broker, open_log

SEGMENT_BYTES = 4096
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
BACKOFF_MS = 15_000
PATIENCE_S = 60.0


def make_topic(
    broker: Broker, name: str = "t", overrides: dict[str, str] | None = None, partitions: int = 1
) -> Log:
    """Create a topic with smaller segments than a setting allows; return its first log."""
    topic = broker.controller.create(name, partitions, COMPACT if overrides is None else overrides)
    for index in range(partitions):
        log = open_log(broker, name, index)
        log.config = log.config._replace(segment_bytes=SEGMENT_BYTES)
    return topic.partitions[0].log


def fill(log: Log, broker: Broker, rounds: int = 20, keys: int = 10) -> dict[bytes, bytes]:
    """Append a record for each key `rounds` times; return the newest value of each key."""
    newest: dict[bytes, bytes] = {}
    for turn in range(rounds):
        for number in range(keys):
            key, value = b"key %d" % number, b"value %d of turn %d" % (number, turn) + b"." * 50
            log.append(encode_batch([(key, value)], log.log_end_offset, broker.now_ms()))
            newest[key] = value
    return newest


def newest_values(log: Log) -> dict[bytes | None, bytes | None]:
    found: dict[bytes | None, bytes | None] = {}
    for data in log.chunks():
        found.update(pairs_in(data))
    return found


def records(log: Log) -> int:
    return sum(len(pairs_in(data)) for data in log.chunks())


def advance(broker: Broker, milliseconds: int) -> None:
    """Let time pass, and wait for the cleaner's thread when it has work."""
    loop = loop_of(broker)
    cleaner = broker.maintenance.cleaner
    deadline = time.monotonic() + PATIENCE_S
    end = loop.now_ms + milliseconds
    while loop.now_ms < end:
        loop.advance(1 if cleaner.busy else min(500, max(1, int(end - loop.now_ms))))
        while not cleaner._workers.idle:
            assert time.monotonic() < deadline, "the cleaner's thread did not report"
            time.sleep(0.0005)
            loop.turn()


def until(broker: Broker, condition: Callable[[], object], limit_ms: int = 120_000) -> None:
    """Let time pass until a condition is true."""
    # In steps of a millisecond: a cleaning may begin and end within a few of them.
    for _ in range(limit_ms):
        if condition():
            return
        advance(broker, 1)
    raise AssertionError("the condition did not become true")


def start_broker(settings: dict[str, str] | None = None, **options: Any) -> Broker:
    broker = make_broker(settings, **options)
    broker.maintenance.start()
    return broker


def files_of(broker: Broker, partition: str) -> list[str]:
    return sorted(broker._data.files.filesystem.list(f"memory/{partition}"))
