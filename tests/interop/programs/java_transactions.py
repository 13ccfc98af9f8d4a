"""Kafka's producer works at every level of transaction.version, also when it changes meanwhile.

A producer of Kafka's own client commits and aborts against a broker that was started at level 0,
then at level 2, where an administrator lowers the level in the middle of a transaction and raises
it again. The requests show which protocol the client took. Kafka 4.3.1 goes the same way.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from coterie.control.process_broker import ProcessBroker
from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Failed, Surroundings
from tests.interop.programs._java import start_java
from tests.interop.topics import CommittedReader, create_topics

_LIMIT_S = 60.0
_TOPIC = "transactions"
_NEWEST = 2
# Longer than the client keeps an idle connection.
_IDLE_S = 0.5
# How many transactions are made with a broker that does not show requests.
_BLIND = 4
# How the producer ends a transaction at each level: the version of EndTxn, and whether it adds
# partitions by requests of their own.
_OLDER, _NEWER = (4, True), (5, False)


class _Producer:
    """The Java program, driven line by line."""

    def __init__(self, around: Surroundings, bootstrap: str, name: str) -> None:
        self._around = around
        self._answered = 0
        self.child = start_java(around, "Transactions", bootstrap, name, _TOPIC)
        self._wait("init")

    def run(self, *lines: str) -> None:
        """Let the program do what some lines say."""
        for line in lines:
            self.child.write(line)
            self._wait(line)

    def _wait(self, line: str) -> None:
        def answers() -> list[str]:
            printed = self.child.log.read_text(errors="replace").splitlines()
            return [each for each in printed if each.startswith(("done ", "failed "))]

        self._around.until(
            lambda: len(answers()) > self._answered, _LIMIT_S, f"'{line}' is done", self.child
        )
        if (answer := answers()[self._answered]) != f"done {line}":
            raise Failed(answer)
        self._answered += 1


def run(around: Surroundings) -> None:
    """Start at level 0, then change the level of a broker that began with the newest."""
    for level in (0, 2):
        with _ours(around, level) as kafka:
            _script(around, kafka.bootstrap_servers, level, kafka)
        node = KafkaNode(around, features={"transaction.version": level})
        child = node.start()
        _script(around, node.bootstrap, level, None)
        child.kill()
    around.note("the same records at levels 0, 1 and 2, also of Kafka")


@contextmanager
def _ours(around: Surroundings, level: int) -> Iterator[ProcessBroker]:
    directory = around.directory / f"level-{level}"
    broker = ProcessBroker(data_dir=directory, features={"transaction.version": level})
    with broker:
        yield broker


def _script(around: Surroundings, bootstrap: str, level: int, ours: ProcessBroker | None) -> None:
    """Go through transactions at a level; `ours` shows the requests of the client."""
    create_topics(bootstrap, {_TOPIC: 2})
    producer = _Producer(around, bootstrap, f"from-{level}")
    expected = ["a", "b"]
    producer.run(
        "begin", "send a", "commit", "begin", "send x", "abort", "begin", "send b", "commit"
    )
    _check_protocol(ours, _OLDER if level < _NEWEST else _NEWER)
    if level == _NEWEST:
        producer.run("begin", "send c", "level 1", "send d", "commit")
        _check_protocol(ours, _NEWER)
        expected += ["c", "d", *_until_protocol(producer, ours, _OLDER, "down")]
        producer.run("begin", "send e", "commit", "begin", "send y", "abort")
        _check_protocol(ours, _OLDER)
        expected.append("e")
    producer.run("begin", "send f", f"level {_NEWEST}", "send g", "commit")
    _check_protocol(ours, _OLDER)
    expected += ["f", "g", *_until_protocol(producer, ours, _NEWER, "up")]
    producer.run(
        "begin", "send h", "commit", "begin", "send z", "abort", "begin", "send i", "commit"
    )
    _check_protocol(ours, _NEWER)
    producer.child.kill()
    _check_records(bootstrap, [*expected, "h", "i"])


def _until_protocol(
    producer: _Producer, ours: ProcessBroker | None, wanted: tuple[int, bool], name: str
) -> list[str]:
    """Make transactions until the client takes a protocol; return their values.

    It learns of a level with a new connection, and closes idle ones.
    """
    values: list[str] = []
    give_up_s = time.monotonic() + _LIMIT_S
    while len(values) < _BLIND if ours is None else not values or _protocol(ours) != wanted:
        if time.monotonic() > give_up_s:
            raise Failed(f"the producer keeps its protocol within {_LIMIT_S:.0f} s: {name}")
        time.sleep(_IDLE_S)
        values.append(f"{name}-{len(values)}")
        producer.run("begin", f"send {values[-1]}", "commit")
    return values


def _protocol(ours: ProcessBroker) -> tuple[int, bool]:
    """Return the protocol of the latest transaction."""
    last: list[str] = []
    version = -1
    for request in reversed(list(ours.requests)):
        if request.api == "EndTxn":
            if version >= 0:
                break
            version = request.version
        last.append(request.api)
    return version, "AddPartitionsToTxn" in last


def _check_protocol(ours: ProcessBroker | None, wanted: tuple[int, bool]) -> None:
    if ours is not None and (found := _protocol(ours)) != wanted:
        raise Failed(f"EndTxn and requests for partitions: {found} instead of {wanted}")


def _check_records(bootstrap: str, values: list[str]) -> None:
    """Check that readers of committed records find these values in both partitions."""
    reader = CommittedReader(bootstrap, {_TOPIC: 2})
    found: dict[int | None, list[str]] = {0: [], 1: []}
    for message in reader.records(_LIMIT_S):
        if message is not None:
            value = message.value()
            assert isinstance(value, bytes)
            found[message.partition()].append(value.decode())
        elif all(len(each) >= len(values) for each in found.values()):
            break
    reader.close()
    for each in found.values():
        if each != values:
            raise Failed(f"committed: {each} instead of {values}")
