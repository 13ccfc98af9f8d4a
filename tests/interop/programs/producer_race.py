"""Many producers take one transactional id from each other, and every transaction stays whole.

Threads of a Java program make a producer each, all with one transactional id, so each of them is
fenced by the next. In the log every epoch must belong to one producer, epochs must rise, and no
record of an epoch may follow the marker that ended it. A reader of committed records must find
what was committed in both partitions, and nothing that was aborted or fenced. Kafka 4.3.1 runs the
same race.
"""

from typing import NamedTuple

from coterie.control.process_broker import ProcessBroker
from coterie.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from coterie.protocol.records import decode_records, iterate_batches
from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Failed, Surroundings
from tests.interop.programs._java import start_java
from tests.interop.requests import ask
from tests.interop.topics import CommittedReader, create_topics

_TOPIC = "race"
_PRODUCERS = 6
_SECONDS = 60
_SHORT_SECONDS = 20
_LIMIT_S = 120.0
_FETCH_VERSION = 11
_FETCH_BYTES = 50_000_000
# 5 s without a record are the end.
_QUIET_POLLS = 25


class _Batch(NamedTuple):
    """A batch of the log: id and epoch of the producer, and its values; a marker has none."""

    producer: tuple[int, int]
    values: list[str]


def run(around: Surroundings) -> None:
    """Race at the newest level of transaction.version, at the older ones, and against Kafka."""
    for level, seconds in ((2, _SECONDS), (1, _SHORT_SECONDS), (0, _SHORT_SECONDS)):
        features = {"transaction.version": level}
        with ProcessBroker(data_dir=around.directory / f"level-{level}", features=features) as ours:
            _race(around, ours.bootstrap_servers, f"ours at level {level}", seconds)
    kafka = KafkaNode(around)
    child = kafka.start()
    _race(around, kafka.bootstrap, "Kafka", _SHORT_SECONDS)
    child.kill()


def _race(around: Surroundings, bootstrap: str, name: str, seconds: int) -> None:
    create_topics(bootstrap, {_TOPIC: 2})
    child = start_java(around, "Race", bootstrap, "raced", _TOPIC, str(_PRODUCERS), str(seconds))
    around.until(lambda: not child.running, seconds + _LIMIT_S, "the race is over")
    lines = [line.split(" ", 2) for line in child.log.read_text(errors="replace").splitlines()]
    if lines[-1:] != [["ended"]]:
        raise Failed(f"the race has not ended:\n{child.last_lines()}")
    outcomes = {line[1]: line[2] for line in lines if line[0] == "outcome"}
    logs = [_read_log(bootstrap, index) for index in range(2)]
    for log in logs:
        _check_log(name, log)
    committed = _read_committed(bootstrap)
    _check_outcomes(name, outcomes, committed)
    kinds = {kind: sum(each.startswith(kind) for each in outcomes.values())
             for kind in ("committed", "aborted", "fenced", "unknown")}  # fmt: skip
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    around.note(f"{name}: {told}")


def _check_log(name: str, log: list[_Batch]) -> None:
    """Check the epochs of one partition.

    A fenced producer gets a marker with the next epoch, so a late record of it would be one of a
    lower epoch than that of the batch before.
    """
    newest = (-1, -1)
    owners: dict[tuple[int, int], str] = {}
    for batch in log:
        if batch.producer < newest:
            raise Failed(f"{name}: epoch {batch.producer} after {newest}: {batch}")
        newest = batch.producer
        for value in batch.values:
            owner = value.split("-")[0]
            if owners.setdefault(batch.producer, owner) != owner:
                raise Failed(f"{name}: two producers have the epoch {batch.producer}: {batch}")


def _check_outcomes(name: str, outcomes: dict[str, str], committed: list[list[str]]) -> None:
    """Compare what the producers were told with what readers of committed records find."""
    for found in committed:
        if len(found) != len(set(found)):
            raise Failed(f"{name}: a value was committed twice")
        if sorted(found) != sorted(committed[0]):
            raise Failed(f"{name}: a transaction was committed in one partition only")
    visible = set(committed[0])
    for value, outcome in outcomes.items():
        if outcome == "committed" and value not in visible:
            raise Failed(f"{name}: {value} was committed and is lost")
        if outcome in ("aborted", "fenced") and value in visible:
            raise Failed(f"{name}: {value} was {outcome} and is visible")
    if strange := visible - outcomes.keys():
        raise Failed(f"{name}: visible, and no producer says so: {sorted(strange)[:5]}")


def _read_log(bootstrap: str, index: int) -> list[_Batch]:
    """Return the batches of a partition, those of aborted transactions and markers too."""
    found: list[_Batch] = []
    offset = 0
    while True:
        partition = FetchRequestPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=_FETCH_BYTES,
            topics=[FetchRequestTopic(topic=_TOPIC, partitions=[partition])],
        )  # fmt: skip
        (answer,) = ask(bootstrap, request, _FETCH_VERSION).responses[0].partitions
        data = bytes(answer.records or b"")
        if not data:
            return found
        for position, header in iterate_batches(data):
            values = []
            if not header.is_control:
                records = decode_records(data, header, position)
                values = [(each.value or b"").decode() for each in records]
            found.append(_Batch((header.producer_id, header.producer_epoch), values))
            offset = header.next_offset


def _read_committed(bootstrap: str) -> list[list[str]]:
    """Return the values of both partitions that readers of committed records find."""
    reader = CommittedReader(bootstrap, {_TOPIC: 2})
    found: list[list[str]] = [[], []]
    quiet = 0
    for message in reader.records(_LIMIT_S):
        if message is None:
            quiet += 1
            if quiet > _QUIET_POLLS:
                break
            continue
        quiet = 0
        value = message.value()
        assert isinstance(value, bytes)
        found[message.partition() or 0].append(value.decode())
    reader.close()
    return found
