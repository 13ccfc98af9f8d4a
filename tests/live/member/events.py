"""The events that a member prints, the orders that it gets, and what both Python clients share."""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

# How long one poll may wait, which is the reaction time to SIGTERM and to orders.
POLL_S = 0.2
# The number of records between two commits; small, so that a kill leaves some uncommitted.
BATCH_RECORDS = 20
EXIT_FATAL = 3

ASSIGNOR_CLASSES = {
    "range": "RangePartitionAssignor",
    "roundrobin": "RoundRobinPartitionAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}

Partition = tuple[str, int]


class Events:
    """Prints events."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._membership: object = None

    def report(self, event: str, **fields: object) -> None:
        """Print an event as one line."""
        line = json.dumps({"event": event, "at": time.monotonic(), **fields})
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def partitions(self, event: str, partitions: Iterable[Any]) -> None:
        """Print an event about partitions."""
        self.report(event, partitions=sorted([each.topic, each.partition] for each in partitions))

    def membership(self, generation: int, member_id: str, partitions: Iterable[Any]) -> None:
        """Print the generation, the member id and all partitions, if one of them has changed."""
        owned = sorted([each.topic, each.partition] for each in partitions)
        membership = (generation, member_id, owned)
        if membership != self._membership:
            self._membership = membership
            self.report("membership", generation=generation, member_id=member_id, partitions=owned)

    def record(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        """Print a record."""
        text = None if value is None else value.decode(errors="replace")
        self.report("record", topic=topic, partition=partition, offset=offset, value=text)

    def batch(self, batches: Iterable[Sequence[Any]]) -> dict[Partition, int]:
        """Print the records of a batch, and return the offsets to commit."""
        offsets: dict[Partition, int] = {}
        for records in batches:
            for record in records:
                self.record(record.topic, record.partition, record.offset, record.value)
                offsets[record.topic, record.partition] = record.offset + 1
        return offsets

    def committed(self, offsets: dict[Partition, int]) -> None:
        """Print an acknowledged commit."""
        self.report(
            "committed", offsets=[[*partition, offset] for partition, offset in offsets.items()]
        )

    def failed(self, event: str, error: BaseException) -> None:
        """Print an error of kafka-python or aiokafka with Kafka's name of it."""
        code = getattr(error, "message", None) or type(error).__name__
        self.report(event, code=str(code), text=repr(error))


class Orders:
    """The orders of the test: to join, to subscribe to other topics, or to stop."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._lines: SimpleQueue[str] = SimpleQueue()
        signal.signal(signal.SIGTERM, lambda _signal, _frame: self.stopped.set())
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._lines.put(line)
        # The test has ended; a member that is left behind would disturb other tests.
        os._exit(1)

    def wait_join(self) -> None:
        """Wait for the order to join."""
        assert json.loads(self._lines.get()) == {"join": True}

    def subscription(self) -> list[str] | None:
        """Return the topics of the next order to subscribe; None if there is no order."""
        try:
            topics: list[str] = json.loads(self._lines.get_nowait())["subscribe"]
        except Empty:
            return None
        return topics


def consumer_settings(options: argparse.Namespace, assignor: type) -> dict[str, Any]:
    """Return the settings of a consumer of kafka-python or aiokafka, whose names are the same."""
    settings = {
        "bootstrap_servers": options.bootstrap,
        "client_id": options.client_id,
        "group_id": options.group,
        "session_timeout_ms": options.session_timeout_ms,
        "heartbeat_interval_ms": options.heartbeat_interval_ms,
        "max_poll_interval_ms": options.max_poll_interval_ms,
        "max_poll_records": BATCH_RECORDS,
        "metadata_max_age_ms": options.metadata_max_age_ms,
        "partition_assignment_strategy": [assignor],
        "auto_offset_reset": options.auto_offset_reset,
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 100,
    }
    if options.instance is not None:
        # Old releases do not have this setting.
        settings["group_instance_id"] = options.instance
    return settings
