"""Kills `coterie serve`, and members of a share group, under load: a ledger of each record.

    python -m tests.crash.share_kills [--kills 100] [--seed 0]

Members are processes with librdkafka's ShareConsumer (share_worker.py); each kill is a SIGKILL, of
a member or of the broker. At the end new members process what is left. Then

- each record that was produced was accepted or rejected, or was given as often as the limit allows;
- a record is not given again after its end was confirmed;
- after a confirmed release its delivery count is larger, and it never exceeds the limit.
"""

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import click
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coterie.processes import Child, Children
from tests.crash.share_worker import GROUP, RELEASE, TOPIC
from tests.live.broker_process import BrokerProcess
from tests.live.consumer_groups import ConsumerGroups

_LIMIT = 5
_CONFIG = {
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
    "share.coordinator.state.topic.prune.interval.ms": "3000",
    "share.coordinator.cold.partition.snapshot.interval.ms": "2000",
    "group.share.min.heartbeat.interval.ms": "300",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.session.timeout.ms": "2000",
    "group.share.session.timeout.ms": "3000",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "1500",
    "group.share.delivery.count.limit": str(_LIMIT),
}
_PARTITIONS, _MEMBERS = 3, 3
_FED = 60
_BROKER_SHARE = 0.3
_LONGEST_RUN_S = 2.0
_FINISH_S = 120.0
_SHOWN = 5

# Partition and offset.
Place = tuple[int, int]


class Line(NamedTuple):
    """A line of a ledger.

    Attributes:
        what: what was done.
        since, now: when the poll began, or the same as `now`; when it was done.
        place: the record.
        value: the delivery count, or what was decided.
    """

    what: str
    since: int
    now: int
    place: Place
    value: str


def _read(path: Path) -> list[Line]:
    """Return the lines of a ledger; the last one may be cut off by the kill."""
    lines = []
    for text in path.read_text().split("\n")[:-1]:
        what, *fields = text.split(" ")
        if what != "given":
            fields = [fields[0], *fields]
        since, now, partition, offset, value = fields
        lines.append(Line(what, int(since), int(now), (int(partition), int(offset)), value))
    return lines


class ShareKills:
    """The broker, the members, and the figures.

    Attributes:
        counted: how often what was done.
        failures: what was wrong.
    """

    def __init__(self, place: Path, seed: int, *, prints: bool) -> None:
        self.counted: Counter[str] = Counter()
        self.failures: list[str] = []
        self._place = place
        self._broker = BrokerProcess(place / "data", _CONFIG)
        self._random = random.Random(seed)
        self._children = Children(place)
        self._members: list[Child] = []
        self._produced: set[Place] = set()
        self._prints = prints

    def run(self, kills: int) -> None:
        """Kill so many times, then let the rest be processed, and compare."""
        self._broker.start()
        try:
            with self._children:
                self._begin()
                for number in range(kills):
                    self._feed()
                    self._start_missing()
                    time.sleep(self._random.uniform(0.1, _LONGEST_RUN_S))
                    self._kill()
                    if self._prints and not (number + 1) % 10:
                        click.echo(f"{number + 1} kills, {len(self._produced)} records")
                self._finish()
        finally:
            self._broker.kill()

    def table(self) -> list[str]:
        """Return the report's lines."""
        return [
            *self.failures,
            *(f"{name:<34}{times:>8,}" for name, times in sorted(self.counted.items())),
        ]

    def _begin(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap})
        topics = [NewTopic(TOPIC, _PARTITIONS, 1)]
        for each in admin.create_topics(topics).values():
            each.result(_FINISH_S)
        ConsumerGroups(self._broker, GROUP).alter({"share.auto.offset.reset": "earliest"})

    def _feed(self) -> None:
        """Write more records; a broker that was killed may have them without our knowing it."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._produced.add((message.partition() or 0, message.offset() or 0))

        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "linger.ms": 2})
        for number in range(_FED):
            producer.produce(
                TOPIC, b"%d" % number, partition=number % _PARTITIONS, on_delivery=delivered
            )
        if producer.flush(_FINISH_S):
            self.failures.append("records were not written")

    def _start_missing(self) -> None:
        self._members = [each for each in self._members if each.running]
        while len(self._members) < _MEMBERS:
            number = self.counted["members"]
            self.counted["members"] += 1
            ledger = str(self._place / f"ledger-{number}")
            command = [sys.executable, "-m", "tests.crash.share_worker", self._broker.bootstrap]
            child = self._children.start(f"member-{number}", [*command, ledger, str(number)])
            self._members.append(child)

    def _kill(self) -> None:
        if self._random.random() < _BROKER_SHARE:
            self._broker.kill()
            self.counted["kill -9 of the broker"] += 1
            self._broker.start()
        else:
            self._members.pop(self._random.randrange(len(self._members))).kill()
            self.counted["kill -9 of a member"] += 1

    # --- the end ----------------------------------------------------------------------------------

    def _lines(self) -> list[Line]:
        lines = [line for each in self._place.glob("ledger-*") for line in _read(each)]
        return sorted(lines, key=lambda each: each.now)

    def _finish(self) -> None:
        """Let members process the rest, and compare."""
        self._start_missing()
        give_up_s = time.monotonic() + _FINISH_S
        while (lost := self._unfinished(self._lines())) and time.monotonic() < give_up_s:
            time.sleep(1)
            self._start_missing()
        self.failures += [f"lost: {each}" for each in sorted(lost)[:_SHOWN]]
        lines = self._lines()
        self._check(lines)
        self.counted["records"] = len(self._produced)
        self.counted["deliveries"] = sum(each.what == "given" for each in lines)
        self.counted["confirmed decisions"] = sum(each.what == "told" for each in lines)
        self.counted["deliveries after the first"] = sum(
            each.what == "given" and each.value != "1" for each in lines
        )

    def _unfinished(self, lines: list[Line]) -> set[Place]:
        """Return the records that are neither done nor were given often enough."""
        done = {each.place for each in lines if each.what == "told" and each.value != RELEASE}
        given = {each.place for each in lines if each.what == "given" and int(each.value) >= _LIMIT}
        return self._produced - done - given - self._perhaps_done(lines)

    def _perhaps_done(self, lines: list[Line]) -> set[Place]:
        """Return the records whose end was asked for some time ago, and not confirmed."""
        before = time.monotonic_ns() - 30 * 10**9
        return {
            each.place
            for each in lines
            if each.what == "asks" and each.value != RELEASE and each.now < before
        }

    def _check(self, lines: list[Line]) -> None:
        done: dict[Place, int] = {}
        counts: dict[Place, int] = {}
        released: dict[Place, tuple[int, int]] = {}
        for each in lines:
            place = each.place
            if each.what == "given":
                count = int(each.value)
                if done.get(place, each.now) < each.since:
                    self.failures.append(f"given after its end was confirmed: {each}")
                told, least = released.get(place, (each.now, 0))
                if told < each.since and count <= least:
                    self.failures.append(f"given again with a count not above {least}: {each}")
                if count > _LIMIT:
                    self.failures.append(f"given too often: {each}")
                counts[place] = count
            elif each.what == "told" and each.value == RELEASE:
                released[place] = each.now, counts[place]
            elif each.what == "told":
                done.setdefault(place, each.now)


@click.command()
@click.option("--kills", default=100, show_default=True, help="How often to kill.")
@click.option("--seed", default=0, show_default=True, help="What is killed when.")
def main(*, kills: int, seed: int) -> None:
    """Kill a broker and the members of a share group, and compare their ledgers."""
    with tempfile.TemporaryDirectory(prefix="coterie-share-kills-") as place:
        run = ShareKills(Path(place), seed, prints=True)
        run.run(kills)
    for line in run.table():
        click.echo(line)
    raise SystemExit(1 if run.failures else 0)


if __name__ == "__main__":
    main()
