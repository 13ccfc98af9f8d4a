"""A member that is our port of the consumer of Kafka 0.8.

The watcher thread is the main thread. It runs the same work as the simulated consumer, with kazoo
behind the requests. A second thread reads from the broker with kafka-python, which is given its
partitions by `assign` and needs no group. Offsets are in ZooKeeper.
"""

import threading
import time
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException

from coterie.assignors.model import TopicPartition as Partition
from coterie.lab.live.zookeeper import KazooNodes, perform
from coterie.lab.machines.old_consumer_work import (
    OldConsumerWork,
    Report,
    Requests,
    Sleep,
    StartFetchers,
    StopFetchers,
    Stopped,
    Work,
)
from coterie.processes.member.application import POLL_S, Application, parser

_MAX_RECORDS = 500
_LINES = {"attempt": "attempt", "gives up": "gave-up"}


class Fetchers:
    """The thread that reads, and what it has read."""

    def __init__(self, application: Application) -> None:
        self.checkpoint: dict[Partition, int] = {}
        self._application = application
        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=application.options.bootstrap,
            client_id=application.options.client_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        self._owned: tuple[Partition, ...] = ()
        # Held during a poll, so that a stop waits for the end of the poll.
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def start(self, offsets: dict[Partition, int]) -> None:
        """Read partitions from offsets on."""
        with self._lock:
            self._owned = tuple(offsets)
            self.checkpoint = dict(offsets)
            self._consumer.assign([TopicPartition(*each) for each in offsets])
            for each, offset in offsets.items():
                self._consumer.seek(TopicPartition(*each), offset)
            self._application.assigned(self._owned)

    def stop(self) -> Stopped:
        """Stop reading; return what was stopped."""
        with self._lock:
            owned, changed = self._owned, self.changed()
            self._owned = ()
            self._consumer.unsubscribe()
            if owned:
                self._application.revoked(owned)
            return Stopped(owned, changed)

    def changed(self) -> dict[Partition, int]:
        """Return the offsets that differ from the stored ones."""
        positions = {Partition(*key): end for key, end in self._application.positions.items()}
        return {key: end for key, end in positions.items() if self.checkpoint.get(key) != end}

    def _read(self) -> None:
        while True:
            with self._lock:
                if self._owned:
                    polled = self._consumer.poll(int(POLL_S * 1_000), _MAX_RECORDS)
                    self._application.take(
                        (each.topic, each.partition, each.offset)
                        for batch in polled.values()
                        for each in batch
                    )
            # Outside the lock, so that the watcher thread gets it.
            time.sleep(0.001 if self._owned else POLL_S)
            self._application.work()


class Port:
    """The consumer."""

    def __init__(self, application: Application) -> None:
        options = application.options
        self._application = application
        self._event = threading.Event()
        self._lost = threading.Event()
        self._session_s = options.session_timeout_ms / 1_000
        self._client = KazooClient(options.zookeeper, timeout=self._session_s)
        self._client.add_listener(self._state_changed)
        self._client.start()
        self._nodes = KazooNodes(self._client, lambda _: self._event.set())
        self._logic = OldConsumerWork(
            options.client_id, options.topic, options.retries, options.backoff_ms
        )
        self._fetchers = Fetchers(application)
        threading.Thread(target=self._commit_on_time, daemon=True).start()

    def run(self) -> None:
        """Consume until the process is to stop."""
        stopping = self._application.stopping
        self._do(self._logic.register())
        while not stopping.is_set():
            if self._lost.is_set():
                self._begin_again()
            elif self._event.wait(POLL_S):
                self._event.clear()
                self._do(self._logic.watch_and_rebalance())
        stopped = self._fetchers.stop()
        self._application.write("ending")
        if stopped.changed:
            self._send(self._logic.storing(stopped.changed))
        self._client.stop()

    def _begin_again(self) -> None:
        """Register once more after the end of a session; nothing is deleted or committed."""
        if not self._client.connected:
            self._application.stopping.wait(POLL_S)
            return
        self._lost.clear()
        self._event.clear()
        self._fetchers.stop()
        self._do(self._logic.register())

    def _state_changed(self, state: Any) -> None:
        if state == KazooState.LOST:
            self._lost.set()

    def _do(self, work: Work) -> None:
        """Do a piece of work; the end of the session ends it."""
        result: Any = None
        while not self._application.stopping.is_set():
            try:
                wanted = work.send(result)
            except StopIteration:
                return
            try:
                result = self._carry_out(wanted)
            except KazooException as error:
                self._application.failed("error", error)
                self._lost.set()
                return
            if self._lost.is_set():
                return

    def _carry_out(self, wanted: Requests | Sleep | StopFetchers | StartFetchers | Report) -> Any:
        if isinstance(wanted, Requests):
            return self._send(wanted)
        if isinstance(wanted, StopFetchers):
            return self._fetchers.stop()
        if isinstance(wanted, StartFetchers):
            self._fetchers.start(dict(wanted.offsets))
        elif isinstance(wanted, Sleep):
            self._application.stopping.wait(wanted.ms / 1_000)
        elif wanted.event in _LINES:
            self._application.write(_LINES[wanted.event])
        return None

    def _send(self, requests: Requests) -> list[Any]:
        group = self._application.options.group
        return [perform(self._nodes, group, each) for each in requests.all]

    def _commit_on_time(self) -> None:
        while not self._application.stopping.wait(POLL_S):
            if not self._application.commit_is_due() or self._lost.is_set():
                continue
            changed = self._fetchers.changed()
            try:
                if changed:
                    self._send(self._logic.storing(changed))
                    self._fetchers.checkpoint.update(changed)
                self._application.committed(
                    {(key.topic, key.partition): end for key, end in changed.items()}
                )
            except KazooException as error:
                self._application.failed("error", error)


if __name__ == "__main__":
    options = parser()
    options.add_argument("--zookeeper", required=True)
    options.add_argument("--retries", type=int, required=True)
    options.add_argument("--backoff-ms", type=int, required=True)
    Port(Application(options.parse_args())).run()
