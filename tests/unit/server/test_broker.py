"""A whole broker with real sockets and a real directory: restart, orderly stop, identity.

Rules: [connections/stop].
"""

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from coterie.address import Address
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.server.broker import Broker
from coterie.server.config.config import Config
from coterie.server.logs.flusher import FlushMode
from coterie.server.shared_parts import SharedParts
from coterie.storage.errors import DirectoryLocked, DirectoryMismatch
from tests.unit.server.groups import commit, fetch_committed, join
from tests.unit.server.manual import COMMIT, NEVER, ManualEnvironment
from tests.unit.server.manual_loop import ManualLoop
from tests.unit.server.running import PATIENCE_S, RunningBroker, is_closed


@pytest.mark.parametrize("flush", [NEVER, COMMIT])
def test_committed_offsets_survive_a_restart(tmp_path: Path, flush: FlushMode) -> None:
    directory = str(tmp_path / "data")
    with RunningBroker(data_dir=directory, flush=flush) as first:
        first.call(lambda: first.broker.controller.create("t", 1, {}))
        with first.client() as client:
            for offset in range(20):
                answer = client.call(commit(offset), 8)
                assert answer.topics[0].partitions[0].error_code == 0
        cluster_id = first.broker.image.cluster_id
    with RunningBroker(data_dir=directory, flush=flush) as second:
        assert second.broker.image.cluster_id == cluster_id
        with second.client() as client:
            answer = client.call(fetch_committed(), 8)
            assert answer.groups[0].topics[0].partitions[0].committed_offset == 19


def test_stopping_answers_delayed_requests_and_closes_connections() -> None:
    settings = {"group.initial.rebalance.delay.ms": "60000"}
    with RunningBroker(settings) as running:
        client, idle = running.client(), running.connect()
        client.send(join(), 1)
        running.wait_for(
            lambda: running.call(lambda: running.broker.coordinator.group("g")) is not None
        )
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        assert client.receive(join(), 1).error_code == ErrorCode.NOT_COORDINATOR
        assert is_closed(client.socket)
        assert is_closed(idle)
        stopping.join()
        client.socket.close()
        idle.close()
        with pytest.raises(ConnectionRefusedError):
            running.connect()


def test_stopping_does_not_wait_for_a_peer_that_does_not_read() -> None:
    # If the stop waited for the peer, the end of the block would fail.
    with RunningBroker() as running:
        connection = running.connect()
    connection.close()


def test_clients_get_the_advertised_address() -> None:
    with RunningBroker() as running, running.client() as client:
        answer = client.call(MetadataRequest(topics=[]), 9)
        assert [(each.host, each.port) for each in answer.brokers] == [tuple(running.address)]

        def advertise() -> None:
            running.broker.advertise("PLAINTEXT", Address("broker.example", 19092))

        running.call(advertise)
        answer = client.call(MetadataRequest(topics=[]), 9)
        assert [(each.host, each.port) for each in answer.brokers] == [("broker.example", 19092)]


def test_nagles_algorithm_is_off() -> None:
    with RunningBroker() as running, running.client() as client:
        client.call(MetadataRequest(topics=[]), 9)
        (connection,) = running.call(lambda: list(running.broker.connection_quotas._connections))
        raw = connection._transport.get_extra_info("socket")
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_directory_belongs_to_one_broker_with_one_node_id(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")

    def another(node_id: str = "1") -> Broker:
        return Broker(
            SharedParts(
                Config({"offsets.topic.num.partitions": "1", "node.id": node_id}),
                directory,
                ManualEnvironment(ManualLoop()),
                flush=NEVER,
            )
        )

    first = another()
    with pytest.raises(DirectoryLocked):
        another()
    first._data.close()
    with pytest.raises(DirectoryMismatch, match="of node 1, this is node 2"):
        another(node_id="2")
    another()._data.close()


def test_no_thread_is_left_behind(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    data_dir = str(tmp_path / "data")
    with RunningBroker(data_dir=data_dir, flush=COMMIT) as running:
        running.call(lambda: running.broker.controller.create("t", 1, {}))
        with running.client() as client:
            (topic,) = client.call(commit(1), 8).topics
            assert topic.partitions[0].error_code == ErrorCode.NONE
        asyncio.run_coroutine_threadsafe(
            running.broker.environment.run_blocking(lambda: None), running.broker.loop
        ).result(PATIENCE_S)
        names = {each.name for each in set(threading.enumerate()) - before}
        assert {"coterie-flusher", "coterie-disk", "coterie-blocking"} <= names
    assert set(threading.enumerate()) <= before
