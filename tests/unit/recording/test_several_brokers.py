"""Recordings of several brokers [recording/several-brokers], and their replay to one."""

import json
import re
import signal
import socket
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from coterie.address import Address
from coterie.cli.main import main
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
)
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.elect_leaders import ElectLeadersRequest
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.recording.comparison import Difference
from coterie.recording.conversation import RecordedExchange
from coterie.recording.files import read
from coterie.recording.format import Entry, Flag, Kind
from coterie.recording.several_brokers import (
    fit_to_one,
    reason_to_skip,
    refusal_of_another,
    without_places,
)
from tests.unit.server.process import serving
from tests.unit.server.running import PATIENCE_S, SocketClient

LATEST = -1


def list_offsets(epoch: int = -1) -> ListOffsetsRequest:
    part = ListOffsetsRequestPartition(
        partition_index=0, current_leader_epoch=epoch, timestamp=LATEST
    )
    topic = ListOffsetsRequestTopic(name="orders", partitions=[part])
    return ListOffsetsRequest(replica_id=-1, topics=[topic])


def record(path: Path) -> list[Address]:
    """Record requests to three brokers; the second leads `orders`, and the others refuse."""
    arguments = ("--brokers", "3", "--data-dir", ":memory:", "--record", str(path))
    with serving(*arguments) as process:
        assert process.stdout is not None
        line = re.match(r"\S+ \S+ ready on (\S+) ", process.stdout.readline())
        assert line is not None
        addresses = [Address.parse(each) for each in line[1].split(",")]
        assignment = CreateTopicsRequestAssignment(partition_index=0, broker_ids=[2, 3])
        topic = CreateTopicsRequestTopic(
            name="orders", num_partitions=-1, replication_factor=-1, assignments=[assignment]
        )
        clients = [SocketClient(socket.create_connection(each)) for each in addresses]
        clients[0].call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 5)
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        for client in clients:
            client.call(MetadataRequest(topics=None), 9)
            client.call(list_offsets(0), 5)
            client.call(beat, 3)
        for client in clients:
            client.socket.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    return addresses


def replayed(path: Path, *arguments: str) -> Any:
    result = CliRunner().invoke(
        main, ["replay", str(path), "--json", *arguments], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_recording_knows_the_brokers_and_is_replayed_to_one(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    record(path)
    header = read(str(path)).header
    assert header.brokers is not None
    assert list(header.brokers) == ["1", "2", "3"]
    exchanges = replayed(path)
    assert {each["broker"] for each in exchanges} == {1, 2, 3}
    assert [each for each in exchanges if each["differences"]] == []
    asked = {each["broker"]: each for each in exchanges if each["api"] == "ListOffsets"}
    # The others did not lead the partition; what the leader has answered is so with one broker.
    assert asked[2]["skipped"] is None
    for node_id in (1, 3):
        assert asked[node_id]["skipped"] == (
            "the recorded broker was not in charge: NOT_LEADER_OR_FOLLOWER"
        )
    beats = [each for each in exchanges if each["api"] == "Heartbeat"]
    assert sorted(each["skipped"] is None for each in beats) == [False, False, True]
    # Whichever broker was asked, the answer is the same.
    metadata = [each["replayed"] for each in exchanges if each["api"] == "Metadata"]
    assert len(metadata) == 3
    assert metadata[0] is not None


def test_recording_of_one_broker_says_nothing_of_others(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    with serving("--data-dir", ":memory:", "--record", str(path)) as process:
        assert process.stdout is not None
        line = re.match(r"\S+ \S+ ready on (\S+) ", process.stdout.readline())
        assert line is not None
        with SocketClient(socket.create_connection(Address.parse(line[1]))) as client:
            client.call(MetadataRequest(topics=None), 9)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert read(str(path)).header.brokers is None
    assert b'"brokers"' not in path.read_bytes()
    assert "broker" not in replayed(path)[0]


def test_epochs_are_left_out_of_requests() -> None:
    request = list_offsets(7)
    fit_to_one(request)
    assert request == list_offsets(-1)
    part = FetchRequestPartition(
        partition=0, current_leader_epoch=7, fetch_offset=1, last_fetched_epoch=6,
        log_start_offset=-1, partition_max_bytes=1,
    )  # fmt: skip
    fetch = FetchRequest(
        max_wait_ms=1, min_bytes=1, topics=[FetchRequestTopic(topic="t", partitions=[part])]
    )
    fit_to_one(fetch)
    assert (part.current_leader_epoch, part.last_fetched_epoch) == (-1, -1)


def test_replicas_are_left_out_of_requests() -> None:
    assigned = CreateTopicsRequestAssignment(partition_index=0, broker_ids=[2, 3])
    topics = [
        CreateTopicsRequestTopic(
            name="a", num_partitions=-1, replication_factor=-1, assignments=each
        )
        for each in ([assigned], [])
    ]
    topics.append(CreateTopicsRequestTopic(name="c", num_partitions=4, replication_factor=3))
    fit_to_one(CreateTopicsRequest(topics=topics, timeout_ms=1))
    found = [(each.num_partitions, each.replication_factor, each.assignments) for each in topics]
    assert found == [(1, 1, []), (-1, -1, []), (4, 1, [])]
    more = CreatePartitionsRequestTopic(
        name="a", count=2, assignments=[CreatePartitionsRequestAssignment(broker_ids=[3])]
    )
    fit_to_one(CreatePartitionsRequest(topics=[more], timeout_ms=1, validate_only=False))
    assert (more.count, more.assignments) == (2, None)


def test_places_are_no_differences() -> None:
    places = (
        "brokers[2]", "brokers[1].port", "controller_id", "topics[t].partitions[0].leader_id",
        "topics[t].partitions[0].isr_nodes", "coordinators[g].node_id", "host", "port",
        "responses[t].partition_responses[0].current_leader.leader_epoch", "node_endpoints[1].host",
    )  # fmt: skip
    others = ("topics[t].partitions[0].error_code", "generation_id", "topics[brokers].name")
    differences = [Difference(each, "1", "2") for each in (*places, *others)]
    assert [each.field for each in without_places(differences)] == list(others)


def test_answer_without_errors_refuses_nothing() -> None:
    assert refusal_of_another(None) == ""
    assert refusal_of_another(list_offsets()) == ""


def test_what_is_about_replicas_is_not_sent() -> None:
    frame = encode_request(ElectLeadersRequest(topic_partitions=None), 2, 1, "test")[4:]
    exchange = RecordedExchange(1, Entry(Kind.REQUEST, Flag(0), 1, 0, frame))
    assert reason_to_skip(exchange) == "one broker has no other replicas"
