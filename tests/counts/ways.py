"""What a request passes through: `python ways.py TREE ROUNDS` prints one line of JSON.

A broker of the tree answers each request several times. The functions that it enters are counted
until it has nothing to do any more, and the smallest count is taken: regular work of the broker
adds to the others, and so do files that are opened once. The modules of `coterie.testing`, which
starts the broker, and generated codecs do not count. A generator counts each time that it goes on.
"""

import json
import os
import socket
import struct
import sys
import threading
import time
from types import FrameType
from typing import Any

# A broker that has entered no function for so long has nothing to do any more.
QUIET_S = 0.1
# The log of the transactions is loaded meanwhile.
TRIES, PAUSE_S = 100, 0.1
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
}


class Way:
    """The functions that the threads of a broker enter while `counting`."""

    def __init__(self, tree: str) -> None:
        """Count functions whose source is in the package of `tree`."""
        self.counting = False
        self._package = os.path.join(os.path.realpath(tree), "coterie", "")
        self._names: dict[str, str | None] = {}
        self._calls: list[tuple[str | None, str]] = []

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note a call; see `sys.setprofile`."""
        if not self.counting or event != "call":
            return
        entered = self._module(frame)
        # Comprehensions are functions for Python 3.11 only.
        if entered is None or frame.f_code.co_name.startswith("<"):
            return
        caller = frame.f_back
        while caller is not None and self._module(caller) is None:
            caller = caller.f_back
        self._calls.append((self._module(caller) if caller else None, entered))

    def _module(self, frame: FrameType) -> str | None:
        file = frame.f_code.co_filename
        if file not in self._names:
            path = os.path.realpath(file)
            name = path[len(self._package) :] if path.startswith(self._package) else None
            self._names[file] = None if name is None or name.startswith("testing") else name
        return self._names[file]

    def taken(self) -> dict[str, Any]:
        """Return what was counted since the last call."""
        while True:
            before = len(self._calls)
            time.sleep(QUIET_S)
            if len(self._calls) == before:
                break
        self.counting = False
        calls, self._calls = self._calls, []
        crossings = [entered for caller, entered in calls if caller != entered]
        modules = sorted(set(crossings))
        return {
            "calls": len(calls),
            "crossings": len(crossings),
            "back": len(crossings) - len(modules),
            "modules": len(modules),
            "lines": sum(self._lines(module) for module in modules),
            "names": modules,
        }

    def _lines(self, module: str) -> int:
        with open(self._package + module, encoding="utf-8") as file:
            return len(file.readlines())


class Client:
    """A connection that sends a request and waits for its response."""

    def __init__(self, address: str, way: Way) -> None:
        """Connect to `HOST:PORT`."""
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._way = way

    def ask(self, request: Any, version: int, response: Any) -> Any:
        """Send a request; return its response."""
        from coterie.protocol.frames import decode_response, encode_request

        self._socket.sendall(encode_request(request, version, 1, "counts"))
        (length,) = struct.unpack(">i", self._exactly(4))
        return decode_response(response, self._exactly(length), version)[1]

    def counted(self, request: Any, version: int, response: Any) -> dict[str, Any]:
        """Send a request; return what it passed through, when it was answered without an error."""
        self._way.counting = True
        answer = self.ask(request, version, response)
        assert getattr(answer, "error_code", 0) == 0, answer
        return self._way.taken()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._socket.recv(size - len(data))
        return data


def ways(tree: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Return what JoinGroup, OffsetCommit, Fetch and EndTxn pass through."""
    way = Way(tree)
    threading.setprofile(way)
    from coterie.testing import Broker

    with Broker(topics={"orders": 1}, flush="commit", config=CONFIG) as broker:
        broker.produce("orders", b"one")
        client = Client(broker.bootstrap_servers, way)
        found = [_asked(client, f"counts-{number}") for number in range(rounds)]
        client.close()
    threading.setprofile(None)
    return {
        name: min((each[name] for each in found), key=lambda way: int(way["calls"]))
        for name in found[0]
    }


def _asked(client: Client, group_id: str) -> dict[str, dict[str, Any]]:
    from coterie.protocol.messages import end_txn, fetch, join_group, offset_commit

    join = join_group.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    place = offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=None
    )
    commit = offset_commit.OffsetCommitRequest(
        group_id=f"{group_id}-offsets",
        topics=[offset_commit.OffsetCommitRequestTopic(name="orders", partitions=[place])],
    )
    wanted = fetch.FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    read = fetch.FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        topics=[fetch.FetchRequestTopic(topic="orders", partitions=[wanted])],
        forgotten_topics_data=[],
    )
    return {
        "JoinGroup": client.counted(join, 3, join_group.JoinGroupResponse),
        "OffsetCommit": client.counted(commit, 7, offset_commit.OffsetCommitResponse),
        "Fetch": client.counted(read, 6, fetch.FetchResponse),
        "EndTxn": client.counted(_transaction(client), 3, end_txn.EndTxnResponse),
    }


def _transaction(client: Client) -> Any:
    """Begin a transaction with one partition; return the request that commits it."""
    from coterie.protocol.messages import (
        add_partitions_to_txn,
        end_txn,
        find_coordinator,
        init_producer_id,
    )

    # This creates the log of the transactions.
    find = find_coordinator.FindCoordinatorRequest(key="counts", key_type=1)
    client.ask(find, 1, find_coordinator.FindCoordinatorResponse)
    begin = init_producer_id.InitProducerIdRequest(
        transactional_id="counts", transaction_timeout_ms=60_000
    )
    for _ in range(TRIES):
        producer = client.ask(begin, 1, init_producer_id.InitProducerIdResponse)
        if producer.error_code == 0:
            break
        time.sleep(PAUSE_S)
    topic = add_partitions_to_txn.AddPartitionsToTxnRequestTopic(name="orders", partitions=[0])
    whose = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    add = add_partitions_to_txn.AddPartitionsToTxnRequest(
        transactional_id="counts", topics=[topic], **whose
    )
    client.ask(add, 1, add_partitions_to_txn.AddPartitionsToTxnResponse)
    return end_txn.EndTxnRequest(transactional_id="counts", committed=True, **whose)


if __name__ == "__main__":
    print(json.dumps(ways(sys.argv[1], int(sys.argv[2]))))
