"""The world of one seed: a broker that is killed, producers and readers, and what must hold.

    python -m tests.simulation.transactions SEED [COUNT]

What must hold at the end, when every transaction has ended:
- a reader that has read all along, over kills, has read what a new reader reads;
- no record is read twice;
- of a transaction whose commit was acknowledged every acknowledged record is read, and of one
  that was aborted, or for which no commit was asked, none;
- of a transaction whose end is not known all acknowledged records are read, or none.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.server.broker import Broker
from coterie.storage.filesystem import FileSystem
from tests.simulation.transactions.producers import (
    PARTITIONS,
    TIMEOUT_MS,
    TOPIC,
    TransactionalProducer,
)
from tests.simulation.transactions.reader import CommittedReader
from tests.unit.server.manual import COMMIT, Client, make_broker, open_log
from tests.unit.server.manual_loop import ManualLoop
from tests.unit.server.virtual import VirtualEnvironment

IDS = ("a", "b")
PRODUCERS_OF_AN_ID = 2
STEPS = 1_500
KILL_CHANCE = 0.004
SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class WrongRead(AssertionError):  # noqa: N818 - what was read is wrong
    """Something does not hold."""


def check_outcomes(producers: Iterable[TransactionalProducer], read: set[bytes]) -> None:
    """Check that each transaction was read as a whole or not at all, as its producer knows.

    Raises:
        WrongRead: it was not.
    """
    for producer in producers:
        for transaction in producer.transactions:
            wanted = set(transaction.acknowledged)
            found = wanted & read
            if transaction.outcome is True and found != wanted:
                raise WrongRead(f"committed and not read: {wanted - found}")
            if not (transaction.wanted and transaction.outcome is not False) and found:
                raise WrongRead(f"aborted and read: {found}")
            if found not in (wanted, set()):
                raise WrongRead(f"a part was read: {found} of {wanted}")


class Actor:
    """A producer or a reader, with its connection."""

    def __init__(self, broker: Broker, steps: Iterator[Any]) -> None:
        self.client = Client(broker)
        self.steps: Any = steps
        self.waits = False
        self._answer: Any = None
        self._has_begun = False

    def step(self) -> None:
        """Send the next request."""
        if self._has_begun:
            wanted = self.steps.send(self._answer)
        else:
            wanted, self._has_begun = next(self.steps), True
        self._answer = None
        if wanted is not None:
            self.client.send(*wanted)
            self.waits = True

    def receive(self) -> None:
        """Take the answer, if it has come."""
        for _, answer in self.client.answers():
            self._answer, self.waits = answer, False

    def reconnect(self, broker: Broker) -> None:
        """Connect to a broker that was started after a kill."""
        self.client, self.waits, self._answer = Client(broker), False, None


class World:
    """The world of a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._seed = seed
        self._loop = ManualLoop()
        self.broker = self._start(None)
        self.broker.controller.create(TOPIC, PARTITIONS, {"segment.ms": "1000"})
        names = [name for name in IDS for _ in range(PRODUCERS_OF_AN_ID)]
        self.producers = [
            TransactionalProducer(number, name, random.Random(seed * 100 + number))
            for number, name in enumerate(names)
        ]
        self.reader = CommittedReader()
        self._actors = [Actor(self.broker, each.steps()) for each in self.producers]
        self._actors.append(Actor(self.broker, self.reader.steps()))
        self.kills = 0
        client = Client(self.broker)
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=list(IDS))
        client.send(find, 4)
        self._loop.advance(1000)

    def _start(self, filesystem: FileSystem | None) -> Broker:
        return make_broker(
            SETTINGS,
            flush=COMMIT,
            filesystem=filesystem,
            loop=self._loop,
            environment=VirtualEnvironment(self._loop, self._seed),
        )

    def run(self) -> None:
        """Let everything happen, and check what must hold."""
        for _ in range(STEPS):
            self._step(self._actors)
            if self._chance.random() < KILL_CHANCE:
                self._kill()
        self._end()
        self._check()

    def _step(self, actors: list[Actor]) -> None:
        """Let one actor act, and some time pass."""
        ready = [each for each in actors if not each.waits]
        if ready:
            self._chance.choice(ready).step()
        if self._chance.random() < 0.5:
            self._loop.turn_once()
        else:
            self._loop.advance(self._chance.choice((0, 0, 1, 5, 25)))
        for actor in actors:
            actor.receive()

    def _kill(self) -> None:
        """Kill the process: what was written stays, and nothing is answered any more."""
        self.kills += 1
        data = self.broker._data
        data._lock.release()
        self._loop.forget()
        self.broker = self._start(data.files.filesystem)
        for actor in self._actors:
            actor.reconnect(self.broker)

    def _end(self) -> None:
        """Let all transactions time out, and the reader read everything."""
        self._loop.advance(TIMEOUT_MS * 3)
        reading = self._actors[-1:]
        for actor in self._actors:
            actor.receive()
        for _ in range(300):
            self._step(reading)
        for index in range(PARTITIONS):
            log = open_log(self.broker, TOPIC, index)
            if log.last_stable_offset != log.log_end_offset:
                raise WrongRead(
                    f"a transaction is open for ever in partition {index}: {log.producers}"
                )

    def _check(self) -> None:
        values = [value for partition in self.reader.values for value in partition]
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise WrongRead(f"read twice: {twice}")
        again = CommittedReader()
        actor = Actor(self.broker, again.steps())
        for _ in range(300):
            self._step([actor])
        if again.values != self.reader.values:
            raise WrongRead(f"a new reader reads {again.values} and not {self.reader.values}")
        check_outcomes(self.producers, set(values))
