"""Recordings of unmodified clients against a broker of a test, replayed in virtual time."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaProducer
from click.testing import CliRunner, Result
from confluent_kafka import ShareConsumer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import GroupAuthorizationFailedError

from coterie.cli.main import main
from coterie.conformance.core_driver import CoreDriver, differences
from coterie.conformance.transcript import read as read_transcript
from coterie.control.in_process import InProcess
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.recording.files import Limits, RecordingOptions, numbered, read
from coterie.recording.recorder import Recorder
from coterie.recording.serving import record_brokers, record_connections
from coterie.testing import AnswerError, Broker, BrokerNotStarted, ProcessBroker, ProcessCluster
from tests.interop.group_members import StreamsMember
from tests.interop.requests import ask

OneOrSeveral = TypeVar("OneOrSeveral", bound=InProcess)

# Moments on a quiet machine.
LIMIT_S = 60.0


@contextmanager
def recorded(
    kafka: Broker, path: Path, *, file_bytes: int = 1 << 20, with_payloads: bool = False
) -> Iterator[None]:
    """Record what clients and the broker say in a block."""
    options = RecordingOptions(str(path), Limits(file_bytes, 50), with_payloads)
    server = kafka.server

    def begin() -> Recorder:
        addresses = {server.node_id: "127.0.0.1:9092"}
        begun = record_brokers(server.environment, server.config, options, addresses)
        record_connections(begun, server)
        return begun

    recorder = kafka.thread.call(begin)
    try:
        yield
    finally:
        kafka.thread.call(recorder.close)


def replay(path: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["replay", str(path), *options], catch_exceptions=False)


def speak_kafka_python(kafka: Broker) -> None:
    """Produce five records and read them as a group."""
    with KafkaProducer(**kafka.client_config("kafka-python", client_id="shop")) as producer:
        for number in range(5):
            producer.send("sales", b"sale %d" % number).get(LIMIT_S)
    consumer = KafkaConsumer(
        "sales", **kafka.client_config("kafka-python", group_id="orders", client_id="till")
    )
    count, deadline_s = 0, time.monotonic() + LIMIT_S
    while count < 5:
        assert time.monotonic() < deadline_s, f"{count} records: {kafka.group('orders').stuck()}"
        count += sum(map(len, consumer.poll(1000).values()))
    # A fault may meet the commit.
    with suppress(GroupAuthorizationFailedError):
        consumer.commit()
    consumer.close()


def other_address(stopped: Broker) -> str:
    return f"{stopped.host}:{stopped.port}"


def test_replay_of_kafka_python_answers_as_recorded(kafka: Broker, tmp_path: Path) -> None:
    """[recording/replay]"""
    kafka.topic("sales", partitions=2)
    with recorded(kafka, tmp_path / "r"):
        speak_kafka_python(kafka)
    assert b"sale 1" not in (tmp_path / "r").read_bytes()
    result = replay(tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert "0 otherwise" in result.output
    assert re.search(r"till[.\d]*> JoinGroup v\d group=orders member=till-1", result.output)
    assert re.search(r"till[.\d]*< JoinGroup v\d generation=1", result.output)
    written = tmp_path / "billing.txt"
    result = replay(tmp_path / "r", "--group", "orders", "--to-transcript", str(written))
    assert "the core answers 0 of them otherwise" in result.output
    transcript = read_transcript(written)
    assert len(transcript.blocks) > 5
    assert not differences(transcript, CoreDriver().run(transcript))


async def buy_in_the_morning_and_at_noon(kafka: Broker, path: Path) -> None:
    async with kafka.virtual_time(seed=3) as clock:
        config: dict[str, Any] = kafka.client_config("aiokafka", client_id="shop")
        with recorded(kafka, path, with_payloads=True):
            async with AIOKafkaProducer(**config, enable_idempotence=True) as producer:
                await producer.send_and_wait("sales", b"coffee")
                await clock.advance(21_600)
                await producer.send_and_wait("sales", b"cake")


def test_record_that_was_there_before_is_a_difference(kafka: Broker, tmp_path: Path) -> None:
    """Six hours take moments, also in the replay, and payloads are compared if there are any."""
    kafka.topic("sales", records=["tea"])
    asyncio.run(buy_in_the_morning_and_at_noon(kafka, tmp_path / "r"))
    assert b"coffee" in (tmp_path / "r").read_bytes()
    result = replay(tmp_path / "r", "--differences")
    assert result.exit_code == 1
    found = re.findall(r"! (\S*): (.*)", result.output)
    assert [text for _, text in found] == [
        "recorded 1, replayed 0", "recorded 2, replayed 1",
    ]  # fmt: skip
    assert re.search(r"\n6:00:00\.\d+ shop", result.output)


def test_recording_is_replayed_against_a_running_broker(kafka: Broker, tmp_path: Path) -> None:
    """[recording/against]"""
    kafka.topic("sales", partitions=2)
    with recorded(kafka, tmp_path / "r"):
        speak_kafka_python(kafka)
    with Broker() as other:
        options = ("--against", other.bootstrap_servers, "--create-topics", "--speed", "5")
        result = replay(tmp_path / "r", *options)
        assert result.exit_code == 0, result.output
        assert other.group("orders").offsets == kafka.group("orders").offsets
        # The group has a history now, so it answers otherwise.
        again = replay(tmp_path / "r", "--against", other.bootstrap_servers, "--differences")
    assert again.exit_code == 1
    assert "base_offset" in again.output
    refused = replay(tmp_path / "r", "--against", other_address(other))
    assert refused.exit_code == 1
    assert "No broker reached" in refused.output


def test_planted_difference_is_found(kafka: Broker, tmp_path: Path) -> None:
    """A recorded broker that answers one commit with an error is found, field by field."""
    kafka.topic("sales", partitions=1)
    answer = AnswerError("GROUP_AUTHORIZATION_FAILED")
    with recorded(kafka, tmp_path / "r"), kafka.fault(answer, api="OffsetCommit", times=1) as fault:
        speak_kafka_python(kafka)
        fault.must_have_hit()
    result = replay(tmp_path / "r", "--group", "orders", "--differences")
    assert result.exit_code == 1
    (found,) = re.findall(r"! (.*)", result.output)
    where = "topics[sales].partitions[0].error_code"
    assert found == f"{where}: recorded GROUP_AUTHORIZATION_FAILED, replayed ok"
    objects = replay(tmp_path / "r", "--group", "orders", "--json").output
    assert '"recorded": "GROUP_AUTHORIZATION_FAILED"' in objects


def test_recording_rotates_while_clients_speak(kafka: Broker, tmp_path: Path) -> None:
    kafka.topic("sales")
    with recorded(kafka, tmp_path / "r", file_bytes=2_000):
        speak_kafka_python(kafka)
    assert Path(numbered(str(tmp_path / "r"), 1)).exists()
    assert read(str(tmp_path / "r")).remarks == []
    assert replay(tmp_path / "r").exit_code == 0


def test_group_and_connection_that_are_not_recorded_are_named(
    kafka: Broker, tmp_path: Path
) -> None:
    kafka.topic("sales")
    with recorded(kafka, tmp_path / "r"):
        speak_kafka_python(kafka)
    result = replay(tmp_path / "r", "--group", "order")
    assert result.exit_code == 1
    assert "No request of the recording is about group 'order'; did you mean orders?" in (
        result.output
    )
    result = replay(tmp_path / "r", "--connection", "99", "--to-transcript", "-")
    assert result.exit_code == 1
    assert "The recording has no requests of connection 99, only from 1 to" in result.output


def recording_to(path: Path, kafka: OneOrSeveral) -> OneOrSeveral:
    """Let brokers in a process of their own record, by an option of the command."""
    options: Callable[..., list[str]] = kafka._options
    vars(kafka)["_options"] = lambda *given: [*options(*given), "--record", str(path)]
    return kafka


def test_what_a_controlled_broker_is_asked_is_recorded_over_a_restart(tmp_path: Path) -> None:
    with recording_to(tmp_path / "r", ProcessBroker(topics={"sales": 1})) as kafka:
        with KafkaProducer(**kafka.client_config("kafka-python", client_id="shop")) as producer:
            producer.send("sales", b"coffee").get(LIMIT_S)
            kafka.restart()
            kafka.advance(120)
            producer.send("sales", b"cake").get(LIMIT_S)
        # What the test does is no conversation of clients.
        assert len(kafka.records("sales")) == 2
    result = replay(tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert re.search(r"\n02:\d\d\.\d+ shop\S*> Produce", result.output), result.output
    entries = read(str(tmp_path / "r")).entries
    assert all(one.at_ms <= other.at_ms for one, other in pairwise(entries))


def test_what_a_controlled_cluster_is_asked_is_recorded(tmp_path: Path) -> None:
    with recording_to(tmp_path / "r", ProcessCluster(topics={"sales": 1})) as kafka:
        with KafkaProducer(**kafka.client_config("kafka-python", client_id="shop")) as producer:
            for number in range(3):
                producer.send("sales", b"%d" % number).get(LIMIT_S)
                dead = kafka.leader_of("sales")
                assert dead is not None
                kafka.kill(dead)
                kafka.start(dead)
            with kafka.paused(kafka.leader_of("sales"), detect_ms=0):
                producer.send("sales", b"3").get(LIMIT_S)
            kafka.restart()
            producer.send("sales", b"4").get(LIMIT_S)
        assert len(kafka.records("sales")) == 5
    recording = read(str(tmp_path / "r"))
    assert sorted(recording.header.brokers or {}) == ["1", "2", "3"]
    result = replay(tmp_path / "r")
    assert result.exit_code == 0, result.output


def test_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    both: tuple[InProcess, ...] = (ProcessBroker(), ProcessCluster())
    for kafka in both:
        with pytest.raises(BrokerNotStarted, match=r"--record .*; choose another file"):
            recording_to(tmp_path / "no" / "r", kafka).start()


def test_share_group_is_replayed_and_becomes_a_transcript(kafka: Broker, tmp_path: Path) -> None:
    path, transcript = tmp_path / "a.rec", tmp_path / "a.txt"
    with recorded(kafka, path):
        kafka.topic("sales")
        with KafkaProducer(**kafka.client_config("kafka-python")) as producer:
            producer.send("sales", b"a secret price").get(LIMIT_S)
        consumer = ShareConsumer(
            kafka.client_config("confluent-kafka", group_id="orders", protocol="share")
        )
        consumer.subscribe(["sales"])
        deadline_s = time.monotonic() + LIMIT_S
        while not consumer.poll(0.1):
            assert time.monotonic() < deadline_s, kafka.group("orders").stuck()
        # The next poll accepts what this one has returned.
        consumer.commit_sync()
        consumer.close()
        kafka.group("orders").wait_acknowledged()
    assert b"a secret price" not in path.read_bytes()
    # The group begins at the start because the test says so, which no client has recorded.
    replayed = replay(path, "--group", "orders")
    assert "ShareAcknowledge v1 group_id=orders" in replayed.output
    written = replay(path, "--group", "orders", "--to-transcript", str(transcript))
    assert " otherwise than" in written.output
    assert "log+ share-state orders initialized={sales: [0]}" in transcript.read_text()
    steps = read_transcript(transcript)
    assert not differences(steps, CoreDriver().run(steps))


def test_streams_group_is_replayed_and_becomes_a_transcript(kafka: Broker, tmp_path: Path) -> None:
    path, transcript = tmp_path / "a.rec", tmp_path / "a.txt"
    with recorded(kafka, path):
        kafka.topic("lines", partitions=2)
        address = kafka.bootstrap_servers
        one, two = (StreamsMember("words", each, "lines", store="counts") for each in ("m1", "m2"))
        one.join(address)
        one.beat(address)
        two.join(address)
        one.beat(address)
        for _ in range(2):
            one.confirm(address)
            two.confirm(address)
        kafka.group("words").wait_tasks()
        # A client describes the internal topics too, which the replay has to create by itself.
        for name in ("counts", "lines"):
            ask(address, MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 1)
        two.leave(address)
        one.beat(address)
        one.leave(address)
    replayed = replay(path)
    assert replayed.exit_code == 0, replayed.output
    written = replay(path, "--group", "words", "--to-transcript", str(transcript))
    assert written.exit_code == 0, written.output
    text = transcript.read_text()
    assert "create-topic counts" not in text
    assert "pending {0: [1@" in text
    assert "# Recorded:" not in text
    steps = read_transcript(transcript)
    assert not differences(steps, CoreDriver().run(steps))
