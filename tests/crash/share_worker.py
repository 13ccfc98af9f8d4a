"""A member of a share group: `python -m tests.crash.share_worker HOST:PORT LEDGER SEED`.

It reads records with librdkafka's ShareConsumer, accepts most of them, releases and rejects some,
and appends what it does to a file, a line for each step, before it goes on:

    given POLLED NOW PARTITION OFFSET COUNT    a record was given by a poll that began at POLLED
    asks NOW PARTITION OFFSET KIND             its decision is about to be sent
    told NOW PARTITION OFFSET KIND             the broker has confirmed it

Times are nanoseconds of the monotonic clock, which the processes of a machine share.
"""

import os
import random
import sys
import time
from collections.abc import Iterable

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer

TOPIC = GROUP = "shared"
ACCEPT, RELEASE, REJECT = "accept", "release", "reject"
_TYPES = {
    ACCEPT: AcknowledgeType.ACCEPT,
    RELEASE: AcknowledgeType.RELEASE,
    REJECT: AcknowledgeType.REJECT,
}
_POLL_S, _COMMIT_S = 0.2, 10.0
_RELEASED, _REJECTED = 0.1, 0.15


class Worker:
    """A member."""

    def __init__(self, bootstrap: str, ledger: str, seed: int) -> None:
        """Join the group."""
        self._chance = random.Random(seed)
        self._file = os.open(ledger, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "share.acknowledgement.mode": "explicit",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([TOPIC])

    def run(self) -> None:
        """Work until it is killed."""
        while True:
            polled = time.monotonic_ns()
            messages = [each for each in self._consumer.poll(_POLL_S) if each.error() is None]
            if not messages:
                continue
            now = time.monotonic_ns()
            self._note(
                f"given {polled} {now} {each.partition()} {each.offset()} {each.delivery_count()}"
                for each in messages
            )
            time.sleep(self._chance.choice((0, 0, 0.02)))
            kinds = [(each, self._kind()) for each in messages]
            self._note(_line("asks", each, kind) for each, kind in kinds)
            for each, kind in kinds:
                self._consumer.acknowledge(each, _TYPES[kind])
            self._commit(kinds)

    def _commit(self, kinds: list[tuple[Message, str]]) -> None:
        try:
            results = self._consumer.commit_sync(_COMMIT_S)
        except KafkaException:
            return
        good = {each.partition for each, error in results.items() if error is None}
        self._note(_line("told", each, kind) for each, kind in kinds if each.partition() in good)

    def _kind(self) -> str:
        drawn = self._chance.random()
        if drawn < _RELEASED:
            return RELEASE
        return REJECT if drawn < _REJECTED else ACCEPT

    def _note(self, lines: Iterable[str]) -> None:
        os.write(self._file, "".join(f"{each}\n" for each in lines).encode())


def _line(what: str, message: Message, kind: str) -> str:
    return f"{what} {time.monotonic_ns()} {message.partition()} {message.offset()} {kind}"


if __name__ == "__main__":
    Worker(sys.argv[1], sys.argv[2], int(sys.argv[3])).run()
