"""What a member says (JSON lines on standard output) and what it is told (signals, orders)."""

import json
import os
import signal
import sys
import threading
import time
from queue import Empty, SimpleQueue

# How long one poll may wait: the reaction time to SIGTERM and to orders.
POLL_S = 0.2
# Records handled between two commits; small, so that a kill leaves something uncommitted.
BATCH = 20
EXIT_FATAL = 3

ASSIGNOR_CLASSES = {
    "range": "RangePartitionAssignor",
    "roundrobin": "RoundRobinPartitionAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}

Partition = tuple[str, int]


class Events:
    """Prints events; remembers what must not be said twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._membership: object = None

    def tell(self, event: str, **fields: object) -> None:
        """Print one event as one line."""
        line = json.dumps({"event": event, "at": time.monotonic(), **fields})
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def partitions(self, event: str, partitions: object) -> None:
        """Print an event about a set of topic partitions."""
        self.tell(event, partitions=sorted([each.topic, each.partition] for each in partitions))

    def membership(self, generation: int, member_id: str, partitions: object) -> None:
        """Print who this member is and what it owns, if that changed."""
        owned = sorted([each.topic, each.partition] for each in partitions)
        seen = (generation, member_id, owned)
        if seen != self._membership:
            self._membership = seen
            self.tell("membership", generation=generation, member_id=member_id, partitions=owned)

    def record(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        """Print one record."""
        text = None if value is None else value.decode(errors="replace")
        self.tell("record", topic=topic, partition=partition, offset=offset, value=text)

    def committed(self, offsets: dict[Partition, int]) -> None:
        """Print an acknowledged commit."""
        self.tell(
            "committed", offsets=[[*partition, offset] for partition, offset in offsets.items()]
        )

    def failed(self, event: str, error: BaseException) -> None:
        """Print an error of kafka-python or aiokafka under Kafka's name for it."""
        code = getattr(error, "message", None) or type(error).__name__
        self.tell(event, code=str(code), text=repr(error))


class Orders:
    """What the world outside wants: to stop, or a new subscription."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._lines: SimpleQueue[str] = SimpleQueue()
        signal.signal(signal.SIGTERM, lambda _signal, _frame: self.stopped.set())
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._lines.put(line)
        # Whoever started this member is gone; a member left behind would disturb other tests.
        os._exit(1)

    def subscription(self) -> list[str] | None:
        """The topics of the newest order to subscribe, None if there is no new order."""
        try:
            return json.loads(self._lines.get_nowait())["subscribe"]
        except Empty:
            return None
