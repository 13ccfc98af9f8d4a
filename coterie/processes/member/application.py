"""What the member programs share: options, lines, orders, and slow work."""

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from coterie.processes.lines import Partition, Writer
from coterie.processes.member.login import Login
from coterie.processes.member.poison import Poison

# How long a poll waits for records; the reaction time to SIGTERM and to orders.
POLL_S = 0.1
EXIT_FATAL = 3

ASSIGNOR_CLASSES = {
    "range": "RangePartitionAssignor",
    "roundrobin": "RoundRobinPartitionAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


def parser() -> argparse.ArgumentParser:
    """Return the options of a member; times are in milliseconds and have Kafka's names."""
    options = argparse.ArgumentParser(prog="python -m coterie.processes.member")
    add = options.add_argument
    add("--lines", required=True, help="the file to write to")
    add("--bootstrap", required=True)
    add("--command-config", help="a file with client properties, for a login")
    add("--group", required=True)
    add("--topic", action="append", required=True, help="can be repeated")
    add("--client-id", default="member")
    add("--instance")
    add("--join", choices=["at-once", "when-ordered"], default="at-once")
    add("--group-protocol", choices=["classic", "consumer"], default="classic")
    add("--assignor", choices=sorted(ASSIGNOR_CLASSES), default="range")
    add("--session-timeout-ms", type=int, default=30_000)
    add("--heartbeat-interval-ms", type=int, default=300)
    add("--max-poll-interval-ms", type=int, default=60_000)
    # Short, so that a member whose first Metadata request failed does not wait for minutes.
    add("--metadata-max-age-ms", type=int, default=2_000)
    add("--reconnect-backoff-max-ms", type=int, help="by default that of the library")
    # Small, so that a kill leaves some records uncommitted.
    add("--max-poll-records", type=int, default=20)
    add("--commit-interval-ms", type=int, default=0, help="0: after each poll")
    add("--auto-commit", action="store_true", help="the library commits (kafka-python only)")
    add("--poll-gap-ms", type=float, default=0.0, help="the work on the records of a poll; a mean")
    return options


class Application:
    """The application in a member: it takes records and writes what it does.

    Attributes:
        options: of the member.
        stopping: whether it has been asked to stop.
        positions: for each partition the offset to commit.
        poison: the record that it cannot process.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.stopping = threading.Event()
        self.positions: dict[Partition, int] = {}
        self.poison = Poison()
        self._writer = Writer(options.lines)
        self._generation = -1
        self._membership: object = None
        self._committed_s = time.monotonic()
        self._joining = threading.Event()
        self._topics: list[str] | None = None
        self._slow_s = 0.0
        signal.signal(signal.SIGTERM, lambda _signal, _frame: self.stopping.set())
        threading.Thread(target=self._listen, daemon=True).start()

    # -- orders ------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Take orders from standard input; its end means that the parent has ended."""
        for line in sys.stdin:
            order = json.loads(line)
            self._slow_s = order.get("slow", self._slow_s)
            self._topics = order.get("subscribe", self._topics)
            if "poison" in order:
                self.poison.ordered(*order["poison"])
            if "join" in order:
                self._joining.set()
        os._exit(1)

    def wait_join(self) -> None:
        """Wait for the order to join, unless the member joins at once."""
        if self.options.join == "when-ordered":
            self._joining.wait()

    def subscription(self) -> list[str] | None:
        """Return the topics of a new order to subscribe; None without one."""
        topics, self._topics = self._topics, None
        return topics

    # -- what it writes ----------------------------------------------------------------------------

    def write(self, event: str, **fields: object) -> None:
        """Write an event."""
        self._writer.write(event, **fields)

    def assigned(self, partitions: Iterable[Any]) -> None:
        """Write that partitions were assigned."""
        self.write("assigned", partitions=_pairs(partitions))

    def revoked(self, partitions: Iterable[Any], event: str = "revoked") -> None:
        """Write that partitions are given up."""
        pairs = _pairs(partitions)
        self.write(event, partitions=pairs)
        for each in pairs:
            self.positions.pop(each, None)

    def generation(self, number: int) -> None:
        """Write which generation the member is in, if it has changed."""
        if number != self._generation and number >= 0:
            self._generation = number
            self.write("generation", generation=number)

    def membership(self, generation: int, member_id: str, partitions: Iterable[Any]) -> None:
        """Write the generation, the member id and all partitions, if one of them has changed."""
        self.generation(generation)
        membership = (generation, member_id, _pairs(partitions))
        if membership != self._membership:
            self._membership = membership
            fields = dict(zip(("generation", "member_id", "partitions"), membership, strict=True))
            self.write("membership", **fields)

    def take(self, records: Iterable[tuple[str, int, int]]) -> None:
        """Take the records of a poll: topic, partition and offset of each."""
        ranges = ranges_of(records)
        self.positions |= {(topic, number): last + 1 for topic, number, _, last in ranges}
        if ranges:
            self.write("delivered", batches=ranges)

    def committed(self, offsets: dict[Partition, int]) -> None:
        """Write that offsets are stored, which need not be committed any more."""
        self._committed_s = time.monotonic()
        if offsets:
            committed = [[*partition, offset] for partition, offset in offsets.items()]
            self.write("committed", offsets=committed)
        for each in offsets.items() & self.positions.items():
            self.positions.pop(each[0], None)

    def failed(self, event: str, error: BaseException) -> None:
        """Write an error of kafka-python or aiokafka with Kafka's name of it."""
        code = getattr(error, "message", None) or type(error).__name__
        self.write(event, code=str(code), text=repr(error))

    def fatal(self, error: BaseException) -> int:
        """Write that an error ends the member, and return its exit code."""
        self.failed("error", error)
        sys.stderr.write(f"{error!r}\n")
        return EXIT_FATAL

    # -- what it does ------------------------------------------------------------------------------

    def commit_is_due(self) -> bool:
        """Return whether the interval between two commits has passed."""
        passed_s = time.monotonic() - self._committed_s
        return passed_s * 1_000 >= float(self.options.commit_interval_ms)

    def work_s(self) -> float:
        """Return how long the records of the last poll take."""
        slow_s, self._slow_s = self._slow_s, 0.0
        gap_ms = self.options.poll_gap_ms
        usual_s = random.expovariate(1_000 / gap_ms) if gap_ms else 0.0
        return slow_s + usual_s

    def work(self) -> None:
        """Work on the records of the last poll."""
        self.stopping.wait(self.work_s())

    def settings(self, assignor: type) -> dict[str, Any]:
        """Return the settings of a consumer of kafka-python or aiokafka, which have one name."""
        options = self.options
        settings = {
            "bootstrap_servers": options.bootstrap,
            "client_id": options.client_id,
            "group_id": options.group,
            "session_timeout_ms": options.session_timeout_ms,
            "heartbeat_interval_ms": options.heartbeat_interval_ms,
            "max_poll_interval_ms": options.max_poll_interval_ms,
            "max_poll_records": options.max_poll_records,
            "metadata_max_age_ms": options.metadata_max_age_ms,
            "partition_assignment_strategy": [assignor],
            "auto_offset_reset": "earliest",
            "enable_auto_commit": options.auto_commit,
            "fetch_max_wait_ms": 100,
        }
        if options.command_config is not None:
            settings |= Login(options.command_config).of_python()
        if options.instance is not None:
            # Old releases do not have this setting.
            settings["group_instance_id"] = options.instance
        return settings


def ranges_of(records: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int, int]]:
    """Return topic, partition, first and last offset of stretches in which no offset is missing."""
    ranges: list[tuple[str, int, int, int]] = []
    for topic, number, offset in records:
        first = offset
        if ranges and ranges[-1] == (topic, number, ranges[-1][2], offset - 1):
            first = ranges.pop()[2]
        ranges.append((topic, number, first, offset))
    return ranges


def _pairs(partitions: Iterable[Any]) -> list[Partition]:
    return sorted((each.topic, each.partition) for each in partitions)
