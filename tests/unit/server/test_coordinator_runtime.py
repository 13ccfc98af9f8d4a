"""The runtime of coordinators with a coordinator that has nothing to do with groups."""

import ast
import subprocess
import sys
from typing import Any

import pytest

from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import BatchHeader, encode_batch, iterate_batches
from coterie.server.broker import Broker
from coterie.server.coordinators.runtime import CoordinatorRuntime
from coterie.server.logs.flusher import FlushMode
from coterie.storage.log import Log
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.counters import TOPIC, Add, Answer, CounterMachine
from tests.unit.server.manual import (
    COMMIT,
    NEVER,
    Client,
    logged,
    loop_of,
    make_broker,
    restarted,
    run,
    wait_for_disk,
)
from tests.unit.server.manual_loop import START_MS

# Names of both partitions.
EVEN, ODD = "ab", "abc"


class Caller:
    """Keeps the answers to its requests."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def send(self, answer: Answer) -> None:
        self.answers.append(answer)


class Counters:
    """A broker with a second coordinator."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.loop = loop_of(broker)
        topic = broker.topics.by_name.get(TOPIC)
        if topic is None:
            topic = broker.controller.create(TOPIC, 2, {})
        self.partitions = topic.partitions
        self.machine = CounterMachine(len(self.partitions))
        self.failed: list[int] = []
        self.runtime: CoordinatorRuntime = CoordinatorRuntime(
            broker.host, self.machine, kind="counter", codec=0, failed=self.failed.append
        )
        broker.failures.when_log_failed.append(self.runtime.log_failed)
        self.runtime.take_over(self.partitions)

    def load(self) -> None:
        run(self.broker, self.runtime.load())

    def add(self, request: Add) -> Caller:
        """Send a request without waiting for anything."""
        caller = Caller()
        context = RequestContext(ClientContext(), 0, caller)
        effects = self.machine.add(self.loop.clock(), request, context)
        if effects.response is not None:
            caller.send(effects.response)
        self.runtime.apply(effects)
        return caller

    def count(self, name: str, added: int) -> Answer:
        """Send a request and return its answer."""
        caller = self.add(Add(name, added))
        self.loop.turn()
        (answer,) = caller.answers
        return answer

    def log(self, name: str) -> Log:
        return self.partitions[self.machine.partition_for(name)].log

    def headers(self, name: str) -> list[BatchHeader]:
        return [header for _, header in iterate_batches(self.log(name).read(0, 1 << 20))]


def loaded(flush: FlushMode = NEVER) -> Counters:
    counters = Counters(make_broker(flush=flush))
    counters.load()
    return counters


def test_requests_wait_until_the_partition_is_loaded() -> None:
    counters = Counters(make_broker())
    assert counters.count(EVEN, 1) == Answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    counters.load()
    assert counters.count(EVEN, 1) == Answer(ErrorCode.NONE, 1)


def test_operations_of_a_turn_are_one_batch_and_answered_after_the_write() -> None:
    counters = loaded()
    callers = [counters.add(Add(EVEN, number)) for number in (1, 2, 3)]
    assert [caller.answers for caller in callers] == [[], [], []]
    counters.loop.turn()
    assert [caller.answers[0].total for caller in callers] == [1, 3, 6]
    assert [header.record_count for header in counters.headers(EVEN)] == [3]


def test_answers_leave_after_the_sync() -> None:
    counters = loaded(COMMIT)
    caller = counters.add(Add(EVEN, 1))
    counters.runtime.write()
    assert counters.log(EVEN).log_end_offset == 1
    assert caller.answers == []
    wait_for_disk(Client(counters.broker))
    assert caller.answers == [Answer(ErrorCode.NONE, 1)]
    counters.broker.flusher.stop()


@pytest.mark.parametrize("killed", [False, True])
def test_next_broker_loads_what_was_acknowledged(killed: bool) -> None:
    counters = loaded()
    for name in (EVEN, ODD, EVEN):
        counters.count(name, 5)
    counters.runtime.stop()
    again = Counters(restarted(counters.broker, killed=killed))
    again.load()
    assert (again.machine.count(EVEN), again.machine.count(ODD)) == (10, 5)
    line = logged(again.broker, "partitions loaded")[-1]
    assert (line["partitions"], line["records"], line["counters"]) == (2, 3, 2)


def test_operation_of_a_producer_has_a_batch_of_its_own() -> None:
    counters = loaded()
    for producer in (-1, -1, 7, 7, -1):
        counters.add(Add(EVEN, 1, producer_id=producer))
    counters.loop.turn()
    headers = counters.headers(EVEN)
    assert [header.record_count for header in headers] == [2, 1, 1, 1]
    assert [header.producer_id for header in headers] == [-1, 7, 7, -1]
    assert [header.is_transactional for header in headers] == [False, True, True, False]
    assert counters.count(EVEN, 0).total == 5


def test_log_with_an_unexpected_end_is_loaded_again_under_its_epoch() -> None:
    """[coordinator/failed-append]"""
    counters = loaded()
    counters.count(EVEN, 1)
    log = counters.log(EVEN)
    key, value = b"\0\2ab", (41).to_bytes(8)
    log.append(encode_batch([(key, value)], log.log_end_offset, START_MS))
    assert counters.count(EVEN, 1) == Answer(ErrorCode.NOT_COORDINATOR)
    (line,) = logged(counters.broker, "counter log changed unexpectedly, loading it again")
    assert counters.machine.count(EVEN) == 42
    assert counters.count(EVEN, 1) == Answer(ErrorCode.NONE, 43)
    assert counters.runtime.epoch(line["partition"]) == 0


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_failed_log_stops_its_partition_alone(kind: str) -> None:
    """[log/fail-stop]"""
    faulty = FaultyFileSystem(MemoryFileSystem())
    counters = Counters(make_broker(flush=COMMIT, filesystem=faulty))
    counters.load()
    faulty.fail_at(kind, 1)
    caller = counters.add(Add(EVEN, 1))
    wait_for_disk(Client(counters.broker))
    assert caller.answers == [Answer(ErrorCode.NOT_COORDINATOR)]
    assert counters.failed == [counters.machine.partition_for(EVEN)]
    assert counters.count(EVEN, 1) == Answer(ErrorCode.NOT_COORDINATOR)
    caller = counters.add(Add(ODD, 1))
    wait_for_disk(Client(counters.broker))
    assert caller.answers == [Answer(ErrorCode.NONE, 1)]
    counters.broker.flusher.stop()


@pytest.mark.parametrize("flush", [NEVER, COMMIT])
@pytest.mark.parametrize("failing", [1, 2])
def test_failed_write_leaves_the_other_partition_of_its_turn(
    flush: FlushMode, failing: int
) -> None:
    """[log/fail-stop]"""
    faulty = FaultyFileSystem(MemoryFileSystem())
    counters = Counters(make_broker(flush=flush, filesystem=faulty))
    counters.load()

    def turn(*names: str) -> list[Answer]:
        callers = [counters.add(Add(name, 1)) for name in names]
        counters.loop.turn()
        if flush.commit:
            wait_for_disk(Client(counters.broker))
        return [answer for caller in callers for answer in caller.answers]

    # Afterwards each partition needs one write.
    turn(EVEN, ODD)
    faulty.fail_at("write", failing)
    failed = (EVEN, ODD)[failing - 1]
    refused = Answer(ErrorCode.NOT_COORDINATOR)
    answers = [Answer(ErrorCode.NONE, total) for total in (2, 2, 3)]
    expected = [refused if n == failed else answers[i] for i, n in enumerate((EVEN, ODD, EVEN))]
    assert turn(EVEN, ODD, EVEN) == expected
    assert counters.failed == [counters.machine.partition_for(failed)]
    again = Counters(restarted(counters.broker, killed=True))
    again.load()
    assert again.machine.count(EVEN) == (1 if failed == EVEN else 3)
    assert again.machine.count(ODD) == (1 if failed == ODD else 2)
    counters.broker.flusher.stop()


def test_partition_is_given_up_and_taken_over_by_epoch() -> None:
    """[coordinator/epochs]"""
    counters = loaded()
    counters.count(EVEN, 3)
    index = counters.machine.partition_for(EVEN)
    waiting = counters.add(Add(EVEN, 1))
    counters.runtime.unload_partition(index, 4)
    assert waiting.answers == [Answer(ErrorCode.NOT_COORDINATOR)]
    counters.runtime.load_partition(index, 3)
    assert not counters.runtime.is_loading(index)
    counters.runtime.load_partition(index, 5)
    counters.loop.turn()
    assert counters.count(EVEN, 1) == Answer(ErrorCode.NONE, 4)
    assert [header.leader_epoch for header in counters.headers(EVEN)] == [0, 5]


def test_damaged_log_is_not_served() -> None:
    counters = loaded()
    counters.count(EVEN, 3)
    log = counters.log(EVEN)
    log.append(encode_batch([(b"\0\2ab", None)], log.log_end_offset, START_MS))
    again = Counters(restarted(counters.broker, killed=True))
    again.load()
    (line,) = logged(again.broker, "counter partition not loaded")
    assert again.failed == [line["partition"]]
    assert again.count(EVEN, 1) == Answer(ErrorCode.NOT_COORDINATOR)
    assert again.count(ODD, 1) == Answer(ErrorCode.NONE, 1)


def test_timers_of_a_coordinator_write_records() -> None:
    counters = loaded()
    counters.add(Add(EVEN, 5, lifetime_ms=100))
    counters.add(Add(ODD, 6, lifetime_ms=50))
    counters.loop.advance(60)
    assert (counters.machine.count(EVEN), counters.machine.count(ODD)) == (5, 0)
    counters.loop.advance(60)
    assert counters.machine.count(EVEN) == 0
    again = Counters(restarted(counters.broker, killed=True))
    again.load()
    assert (again.machine.count(EVEN), again.machine.count(ODD)) == (0, 0)


def test_mistake_in_one_timer_stops_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = loaded()
    counters.add(Add(EVEN, 5, lifetime_ms=100))
    counters.add(Add(ODD, 6, lifetime_ms=50))
    advance = counters.machine.advance
    calls: list[int] = []

    def fails_first(now_ms: int) -> Any:
        calls.append(now_ms)
        assert len(calls) > 1, "a mistake of ours"
        return advance(now_ms)

    monkeypatch.setattr(counters.machine, "advance", fails_first)
    with pytest.raises(AssertionError, match="a mistake of ours"):
        counters.loop.advance(60)
    counters.loop.advance(120)
    assert (counters.machine.count(EVEN), counters.machine.count(ODD)) == (0, 0)


def test_mistake_in_one_answer_stops_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = loaded()
    first, second, third = (counters.add(Add(name, 1)) for name in (EVEN, ODD, EVEN))

    def fails(_answer: Answer) -> None:
        raise AssertionError("a mistake of ours")

    monkeypatch.setattr(first, "send", fails)
    with pytest.raises(AssertionError, match="a mistake of ours"):
        counters.loop.turn()
    assert second.answers == [Answer(ErrorCode.NONE, 1)]
    assert third.answers == [Answer(ErrorCode.NONE, 2)]


def test_mistake_that_the_coordinator_returns_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = loaded()
    appended = counters.machine.appended

    def with_mistake(written: list[tuple[int, int]], now_ms: int) -> Effects[Answer]:
        effects = appended(written, now_ms)
        effects.mistakes = [AssertionError("a mistake of ours")]
        return effects

    monkeypatch.setattr(counters.machine, "appended", with_mistake)
    caller = counters.add(Add(EVEN, 1))
    with pytest.raises(AssertionError, match="a mistake of ours"):
        counters.loop.turn()
    assert caller.answers == [Answer(ErrorCode.NONE, 1)]


def test_stop_answers_what_waits() -> None:
    counters = loaded()
    waiting = counters.add(Add(EVEN, 1))
    counters.runtime.stop()
    assert waiting.answers == [Answer(ErrorCode.NOT_COORDINATOR)]


def test_runtime_does_not_import_the_group_coordinator() -> None:
    code = (
        "import sys, coterie.server.coordinators.runtime\n"
        "print(sorted(name for name in sys.modules if name.startswith('coterie.coordinator.')"
        " or name.startswith('coterie.server.groups')))"
    )
    found = subprocess.check_output([sys.executable, "-c", code], text=True)
    # The settings of the broker contain those of the coordinators.
    names = set(ast.literal_eval(found.replace("coterie.coordinator.", "")))
    outside = {name for name in names if name.split(".")[0] != "kernel"}
    kinds = ("groups", "share_state", "transactions")
    assert outside == {*kinds, *(f"{each}.config" for each in kinds)}
