"""Each wrong use of `coterie.testing` gives one error that says what is wrong and what to do."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from coterie.testing import (
    AnswerError,
    Broker,
    BrokerNotStarted,
    CloseBefore,
    CoordinatorLoads,
    CutAnswer,
    Delay,
    DiskFull,
    NoLeader,
    SlowDisk,
    Throttle,
    WrongUse,
)

Act = Callable[[Broker], Any]


def in_own_thread(kafka: Broker) -> None:
    kafka.thread.call(lambda: kafka.group("g").wait_empty())


def produced_in_own_thread(kafka: Broker) -> None:
    kafka.thread.call(lambda: kafka.produce("t", "a"))


# What mypy would find.
NAME: Any = "NOT_COORDINATOR"
TOPICS: Any = ["orders"]
CLASS: Any = CloseBefore
USES: dict[str, tuple[Act, str]] = {
    # Topics and records.
    "topic twice": (lambda kafka: kafka.topic("t"), r"exists.\nread it with records\('t'\)"),
    "bad topic name": (lambda kafka: kafka.topic("no/name"), "INVALID_TOPIC_EXCEPTION"),
    "no topic": (lambda kafka: kafka.produce("u", "a"), r"the topics are t\ncreate it"),
    "no partition": (
        lambda kafka: kafka.produce("t", "a", partition=9), "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    "no values": (lambda kafka: kafka.produce("t"), "nothing to produce"),
    "number as value": (lambda kafka: kafka.produce("t", 7), "bytes, text or None, not int"),
    "records of no topic": (lambda kafka: kafka.records("u"), "does not exist"),
    "records of no partition": (lambda kafka: kafka.records("t", 3), "no partition 3"),
    "deleted topic": (lambda kafka: kafka.delete_topic("u"), "UNKNOWN_TOPIC_OR_PARTITION"),
    "deleted group": (lambda kafka: kafka.group("g").delete(), "GROUP_ID_NOT_FOUND"),
    "library": (lambda kafka: kafka.client_config("pykafka"), "aiokafka, confluent-kafka, kafka-p"),
    # The life of a broker.
    "started twice": (lambda kafka: kafka.start(), "runs already"),
    "time goes back": (lambda kafka: kafka.advance(-1), "from 0 to 315,576,000, not -1"),
    "clock in real time": (lambda kafka: kafka.clock, r"mark the test .*virtual_time=True"),
    "flush": (lambda _: Broker(flush="sometimes"), "flush: 'sometimes' is not one of: never, com"),
    "list of topics": (lambda _: Broker(topics=TOPICS), r"topics is a dict .* not \['orders'\]"),
    "release": (lambda _: Broker(version="2.88"), "'2.88' is no release of Kafka; choose"),
    "feature": (
        lambda _: Broker(features={"transactions": 1}),
        "features: 'transactions' is not a feature of this broker; it has eligible.leader",
    ),
    "level of a feature": (
        lambda kafka: kafka.set_features({"transaction.version": 3}),
        "features: transaction.version=3: the level must be a whole number from 0 to 2",
    ),
    # Waits.
    "own thread": (in_own_thread, "own thread cannot wait"),
    "own thread, at once": (produced_in_own_thread, "own thread cannot wait"),
    "nobody to expel": (lambda kafka: kafka.group("g").expel("a"), "no member has the id 'a'"),
    "nothing to rebalance": (lambda kafka: kafka.group("g").rebalance(), "no rebalance can begin"),
    # Requests and faults.
    "API": (lambda kafka: kafka.requests.of("Heartbeet"), "did you mean Heartbeat"),
    "API of a fault": (
        lambda kafka: kafka.fault(CloseBefore(), api="JoinGruop"), "did you mean JoinGroup",
    ),
    "error": (
        lambda kafka: kafka.fault(AnswerError("NOT_A_COORDINATOR")),
        "'NOT_A_COORDINATOR' is no error of Kafka's protocol; did you mean NOT_COORDINATOR",
    ),
    "no action": (lambda kafka: kafka.fault(NAME), r"such as AnswerError\(\.\.\.\), not 'NOT_C"),
    "class as action": (lambda kafka: kafka.fault(CLASS), r"such as CloseBefore\(\), not <class"),
    "probability": (lambda kafka: kafka.fault(CloseBefore(), probability=0.0), "above 0"),
    "skip": (lambda kafka: kafka.fault(CloseBefore(), skip=-1), "skip is .* from 0"),
    "times": (lambda kafka: kafka.fault(CloseBefore(), times=0), "times is a whole number from 1"),
    "for_seconds": (lambda kafka: kafka.fault(CloseBefore(), for_seconds=0), "above 0 .*not 0"),
    "delay": (lambda kafka: kafka.fault(Delay(-1)), "seconds is .* from 0"),
    "throttle": (lambda kafka: kafka.fault(Throttle(-1)), "from 0 to 2,147,483,647"),
    "cut": (lambda kafka: kafka.fault(CutAnswer(-1)), "sent_bytes is .* from 0"),
    "API of another subject": (
        lambda kafka: kafka.fault(NoLeader(), api="JoinGroup"),
        "Metadata, Produce, ShareAcknowledge, ShareFetch, not about JoinGroup",
    ),
    "API of no coordinator": (
        lambda kafka: kafka.fault(CoordinatorLoads(), api="Fetch"), "not about Fetch",
    ),
    "disk by client": (
        lambda kafka: kafka.fault(DiskFull(), client_id="a"), "files, not requests: only `topic`",
    ),
    "slow disk by topic": (lambda kafka: kafka.fault(SlowDisk(1), topic="t"), "for all of them"),
    "slow disk without syncs": (lambda kafka: kafka.fault(SlowDisk(1)), "flush='commit'"),
}  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Any:
    """A broker that only wrong uses meet."""
    with Broker(topics={"t": 1}) as running:
        yield running


@pytest.mark.parametrize(("act", "text"), USES.values(), ids=USES)
def test_wrong_use_gives_one_clear_error(broker: Broker, act: Act, text: str) -> None:
    with pytest.raises(WrongUse, match=text):
        act(broker)
    assert broker.faults == []


CLOSED: dict[str, Act] = {
    "address": lambda kafka: kafka.bootstrap_servers,
    "client_config": lambda kafka: kafka.client_config("aiokafka"),
    "topics": lambda kafka: kafka.topics,
    "produce": lambda kafka: kafka.produce("t", "a"),
    "group": lambda kafka: kafka.group("g"),
    "fault": lambda kafka: kafka.fault(CloseBefore()),
    "restart": lambda kafka: kafka.restart(),
    "lose_power": lambda kafka: kafka.lose_power(),
    "flush": lambda kafka: kafka.flush(),
    "advance": lambda kafka: kafka.advance(1),
    "clock": lambda kafka: kafka.clock,
}


@pytest.mark.parametrize("act", CLOSED.values(), ids=CLOSED)
def test_closed_broker_says_so(act: Act) -> None:
    with pytest.raises(BrokerNotStarted, match=r"does not run: call start\(\), or use `with`"):
        act(Broker())


def test_unusable_places_and_settings_are_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerNotStarted, match=f"127.0.0.1:{port} is in use"):
            Broker(port=port).start()
    with pytest.raises(BrokerNotStarted, match=r"no\.such\.setting"):
        Broker(config={"no.such.setting": "1"}).start()
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(BrokerNotStarted, match="cannot be used"):
        Broker(data_dir=file).start()
    with Broker(data_dir=tmp_path / "d"), pytest.raises(BrokerNotStarted, match="is in use"):
        Broker(data_dir=tmp_path / "d").start()
    with pytest.raises(WrongUse, match="INVALID_TOPIC_EXCEPTION"):
        Broker(topics={"no/name": 1}).start()


def test_uvloop_has_no_virtual_time() -> None:
    async def run() -> None:
        with Broker() as kafka, pytest.raises(WrongUse, match="not uvloop's"):
            async with kafka.virtual_time():
                pass

    uvloop.run(run())


def test_virtual_time_is_of_one_loop_and_one_clock() -> None:
    async def run() -> None:
        with Broker() as kafka, Broker() as other:
            async with kafka.virtual_time() as clock:
                with pytest.raises(WrongUse, match="has a virtual clock already"):
                    async with other.virtual_time():
                        pass
                with pytest.raises(WrongUse, match="has a virtual clock already"):
                    async with kafka.virtual_time():
                        pass
                with pytest.raises(WrongUse, match="after that block"):
                    kafka.close()
                with pytest.raises(WrongUse, match=r"await clock\.advance"):
                    kafka.advance(1)
                group = kafka.group("g")
                with pytest.raises(WrongUse, match="and not in another thread or event loop"):
                    await asyncio.to_thread(group.wait_empty)
                assert kafka.clock is clock
            # The broker is reachable again.
            assert kafka.topics == {}

    asyncio.run(run())
