"""Kills `coterie serve`, and workers, while real clients copy records exactly once.

The broker is killed again and again; now and then a worker is, and now and then a second worker
takes over the transactional id of one that goes on, which is a zombie then. At the end each record
of the source is in the target once, in order, for a reader at READ_COMMITTED, and the group has
committed the end of the source.
"""

import random
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coterie.processes import Child, Children
from tests.crash.pipeline_worker import GROUP, LIBRARIES, SOURCE, TARGET
from tests.live.broker_process import BrokerProcess

_CONFIG = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.roll.ms": "400",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "group.initial.rebalance.delay.ms": "0",
}
# Each partition has workers of one library.
_WORKERS = tuple(LIBRARIES)
_FED = 40
_LONGEST_RUN_S = 1.2
_WORKER_KILL_SHARE = 0.25
_ZOMBIE_SHARE = 0.15
_LIMIT_S = 120.0


class PipelineKills:
    """The broker, its clients, and the figures.

    Attributes:
        kills, worker_kills, zombies: how often what was done.
        copied: how many records were copied.
        failures: what was wrong.
    """

    def __init__(self, place: Path, seed: int) -> None:
        self.kills = self.worker_kills = self.zombies = self.copied = 0
        self.failures: list[str] = []
        self._broker = BrokerProcess(place / "data", _CONFIG)
        self._random = random.Random(seed)
        self._children = Children(place)
        self._workers: list[list[Child]] = [[] for _ in _WORKERS]
        self._fed = 0

    def run(self, kills: int, until_s: float) -> None:
        """Kill the broker `kills` times, or until a time on the monotonic clock."""
        self._broker.start()
        try:
            with self._children:
                self._create_topics()
                while self.kills < kills and time.monotonic() < until_s:
                    self._feed()
                    self._live()
                    self._broker.kill()
                    self.kills += 1
                    self._broker.start()
                self._finish()
        finally:
            self._broker.kill()

    def table(self) -> list[str]:
        """Return the report's lines."""
        return [
            *self.failures,
            f"{'kill -9 with transactions':<28}{self.kills:>10,}",
            f"{'  of workers':<28}{self.worker_kills:>10,}",
            f"{'  zombies':<28}{self.zombies:>10,}",
            f"{'records copied once':<28}{self.copied:>10,}",
        ]

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap})
        topics = [NewTopic(name, len(_WORKERS), 1) for name in (SOURCE, TARGET)]
        for each in admin.create_topics(topics).values():
            each.result(_LIMIT_S)

    def _feed(self) -> None:
        """Write more records to the source."""
        producer = Producer(
            {"bootstrap.servers": self._broker.bootstrap, "enable.idempotence": True}
        )
        for partition in range(len(_WORKERS)):
            for number in range(self._fed, self._fed + _FED):
                producer.produce(SOURCE, b"%d-%d" % (partition, number), partition=partition)
        self._fed += _FED
        if producer.flush(_LIMIT_S):
            self.failures.append("the source was not written")

    def _live(self) -> None:
        """Let the workers work for a while; kill one of them, or let it become a zombie."""
        partition = self._random.randrange(len(_WORKERS))
        workers = self._workers[partition]
        chance = self._random.random()
        if chance < _WORKER_KILL_SHARE and workers:
            workers.pop().kill()
            self.worker_kills += 1
        elif chance < _WORKER_KILL_SHARE + _ZOMBIE_SHARE and len(workers) == 1:
            self._start_worker(partition)
            self.zombies += 1
        self._start_missing()
        time.sleep(self._random.uniform(0.05, _LONGEST_RUN_S))

    def _start_missing(self) -> None:
        for partition, workers in enumerate(self._workers):
            workers[:] = [each for each in workers if each.running]
            if not workers:
                self._start_worker(partition)

    def _start_worker(self, partition: int) -> None:
        number = sum(len(each) for each in self._workers) + self.kills * 100
        arguments = (_WORKERS[partition], self._broker.bootstrap, str(partition))
        command = [sys.executable, "-m", "tests.crash.pipeline_worker", *arguments]
        child = self._children.start(f"worker-{partition}-{number}", command)
        self._workers[partition].append(child)

    def _finish(self) -> None:
        """Let the workers copy the rest, and compare."""
        give_up_s = time.monotonic() + _LIMIT_S
        while any(offset < self._fed for offset in self._committed()):
            if time.monotonic() > give_up_s:
                self.failures.append(f"{self._committed()} of {self._fed} were committed at last")
                break
            self._start_missing()
            time.sleep(0.2)
        expected = self._read(SOURCE)
        found = self._read(TARGET)
        for partition, (wanted, values) in enumerate(zip(expected, found, strict=True)):
            self.copied += len(values)
            if values != wanted:
                twice = len(values) - len(set(values))
                missing = len(set(wanted) - set(values))
                self.failures.append(
                    f"partition {partition}, {_WORKERS[partition]}: {len(values)} of {len(wanted)}"
                    f" records, {twice} twice, {missing} missing ({self._broker.data_dir})"
                )

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )

    def _places(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition, 0) for partition in range(len(_WORKERS))]

    def _committed(self) -> list[int]:
        consumer = self._consumer()
        found = consumer.committed(self._places(SOURCE), _LIMIT_S)
        consumer.close()
        return [int(each.offset) for each in found]

    def _read(self, topic: str) -> list[list[bytes]]:
        """Return the committed values of a topic, by partition."""
        consumer = self._consumer()
        consumer.assign(self._places(topic))
        values: list[list[bytes]] = [[] for _ in _WORKERS]
        ended: set[int] = set()
        give_up_s = time.monotonic() + _LIMIT_S
        while len(ended) < len(values) and time.monotonic() < give_up_s:
            message = consumer.poll(0.2)
            if message is None:
                continue
            partition, error = message.partition() or 0, message.error()
            value = message.value()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
            elif isinstance(value, bytes):
                values[partition].append(value)
        consumer.close()
        return values


def kill_pipeline(kills: int, until_s: float, seed: int = 0) -> PipelineKills:
    """Kill a broker and its clients, until a time on the monotonic clock; return what was found."""
    with tempfile.TemporaryDirectory(prefix="coterie-pipeline-kills-") as place:
        run = PipelineKills(Path(place), seed)
        try:
            run.run(kills, until_s)
        except Exception as error:
            run.failures.append(f"{type(error).__name__}: {error}")
    return run
