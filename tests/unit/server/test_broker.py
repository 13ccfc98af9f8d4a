"""A whole broker: real sockets, a real directory, the end in order."""

import socket
import threading
import time
from pathlib import Path

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coterie.server.broker import Broker
from coterie.server.config.config import Config
from coterie.storage.errors import DirectoryLocked, DirectoryMismatch
from tests.unit.server.manual import COMMIT, NEVER, ManualLoop, RecordingLog
from tests.unit.server.running import RunningBroker, is_closed

JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    member_id="",
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
)


def commit(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    return OffsetCommitRequest(group_id="g", member_id="", topics=[topic])


def fetch() -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])


@pytest.mark.parametrize("flush", [NEVER, COMMIT])
def test_what_was_committed_is_there_after_a_restart(tmp_path: Path, flush: object) -> None:
    directory = str(tmp_path / "data")
    with RunningBroker(data_dir=directory, flush=flush) as first:  # type: ignore[arg-type]
        first.call(lambda: first.broker.topics.create("t", 1, {}))
        with first.client() as client:
            for offset in range(20):
                answer = client.call(commit(offset), 8)
                assert answer.topics[0].partitions[0].error_code == 0
        cluster_id = first.broker.cluster_id
    with RunningBroker(data_dir=directory, flush=flush) as second:  # type: ignore[arg-type]
        assert second.broker.cluster_id == cluster_id
        with second.client() as client:
            answer = client.call(fetch(), 8)
            assert answer.groups[0].topics[0].partitions[0].committed_offset == 19


def test_the_end_answers_who_is_parked_and_closes_politely() -> None:
    settings = {"group.initial.rebalance.delay.ms": "60000"}
    with RunningBroker(settings) as running:
        client, idle = running.client(), running.connect()
        client.send(JOIN, 1)
        running.wait_for(
            lambda: running.call(lambda: running.broker.coordinator.group("g")) is not None
        )
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        assert client.receive(JOIN, 1).error_code == ErrorCode.NOT_COORDINATOR
        assert is_closed(client.socket)
        assert is_closed(idle)
        stopping.join()
        client.socket.close()
        idle.close()
        with pytest.raises(ConnectionRefusedError):
            running.connect()


def test_a_peer_that_does_not_read_does_not_hold_up_the_end() -> None:
    with RunningBroker() as running:
        connection = running.connect()
        began = time.monotonic()
    assert time.monotonic() - began < 5
    connection.close()


def test_the_advertised_address_is_what_clients_are_told() -> None:
    with RunningBroker() as running, running.client() as client:
        answer = client.call(MetadataRequest(topics=[]), 9)
        assert [(each.host, each.port) for each in answer.brokers] == [tuple(running.address)]

        def advertise() -> None:
            running.broker.host, running.broker.port = "broker.example", 19092

        running.call(advertise)
        answer = client.call(MetadataRequest(topics=[]), 9)
        assert [(each.host, each.port) for each in answer.brokers] == [("broker.example", 19092)]


def test_answers_are_not_delayed_by_nagle() -> None:
    with RunningBroker() as running, running.client() as client:
        client.call(MetadataRequest(topics=[]), 9)
        (connection,) = running.call(lambda: list(running.broker.connection_quotas._connections))
        raw = connection._transport.get_extra_info("socket")
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_directory_has_one_broker_of_one_id(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")

    def another(**settings: str) -> Broker:
        loop, log = ManualLoop(), RecordingLog()
        values = {key.replace("_", "."): value for key, value in settings.items()}
        return Broker(
            Config({"offsets.topic.num.partitions": "1", **values}),
            directory,
            log,  # type: ignore[arg-type]
            flush=NEVER,
            loop=loop,  # type: ignore[arg-type]
        )

    first = another()
    with pytest.raises(DirectoryLocked):
        another()
    first._data.close()
    with pytest.raises(DirectoryMismatch, match="of node 1, this is node 2"):
        another(node_id="2")
    another()._data.close()
