"""A real ZooKeeper: its server, and the requests of an old consumer as calls of kazoo.

The nodes are those of Kafka 0.8.2, so consumers of that release and ours can be in one group.
"""

import json
import time
from contextlib import suppress
from typing import Any, Protocol

from coterie.address import Address
from coterie.assignors.model import TopicPartition
from coterie.lab.live.clients import LiveRun, need_module
from coterie.lab.live.parts import Part, jars_of, java_command
from coterie.lab.machines.old_consumer_work import (
    BROKERS,
    IDS,
    OFFSETS,
    OWNERS,
    TOPICS,
    Request,
)
from coterie.processes import free_port

# Kafka 0.8.2.2 brings ZooKeeper 3.4.6 along.
KAFKA_0_8 = Part(
    "kafka-0.8.2.2",
    ("org.apache.kafka:kafka_2.11:0.8.2.2", "org.slf4j:slf4j-log4j12:1.7.6"),
)
_HOST = "127.0.0.1"
_PARENTS = {BROKERS: "/brokers/ids", TOPICS: "/brokers/topics"}
_TICK_MS = 2_000
# A Java server on a busy machine.
START_LIMIT_S = 180.0
# What the Java processes of a live run have in common: small, and quick to start.
SMALL_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class NodeExists(Exception):  # noqa: N818 - ZooKeeper's name
    """A node that is to be created exists."""


class NoNode(Exception):  # noqa: N818 - ZooKeeper's name
    """A node does not exist."""


class Nodes(Protocol):
    """The five operations of a ZooKeeper that an old consumer needs."""

    def children(self, path: str, *, watch: bool) -> list[str]:
        """Return the names of the children; none if the node does not exist."""

    def data(self, path: str, *, watch: bool) -> bytes:
        """Return the data of a node.

        Raises:
            NoNode: there is none.
        """

    def create(self, path: str, value: bytes, *, ephemeral: bool) -> None:
        """Create a node, and its parents.

        Raises:
            NodeExists: there is one.
        """

    def delete(self, path: str) -> None:
        """Delete a node, if it exists."""

    def set(self, path: str, value: bytes) -> None:
        """Change the data of a node, which is created if it does not exist."""


def perform(nodes: Nodes, group: str, request: Request) -> Any:
    """Carry out a request of an old consumer; return what it comes to."""
    if request.api == "getChildren":
        return frozenset(nodes.children(path_of(group, request.nodes), watch=request.watch))
    if request.api == "getData":
        return _read(nodes, group, request)
    if request.api == "create":
        values = zip(request.keys, request.values, strict=True)
        return tuple(key for key, value in values if _create(nodes, group, request, key, value))
    for number, key in enumerate(request.keys):
        if request.api == "delete":
            nodes.delete(path_of(group, request.nodes, key))
        else:
            nodes.set(path_of(group, request.nodes, key), str(request.values[number]).encode())
    return None


def path_of(group: str, nodes: str, key: Any = None) -> str:
    """Return the path of a node; without a key, that of the parent."""
    parent = _PARENTS.get(nodes) or f"/consumers/{group}/{nodes}"
    if key is None:
        return parent
    if isinstance(key, TopicPartition):
        return f"{parent}/{key.topic}/{key.partition}"
    return f"{parent}/{key}"


def _read(nodes: Nodes, group: str, request: Request) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key in request.keys:
        with suppress(NoNode):
            data = nodes.data(path_of(group, request.nodes, key), watch=request.watch)
            found[key] = _decode(request.nodes, data)
    return found


def _decode(nodes: str, data: bytes) -> Any:
    if nodes == OFFSETS:
        return int(data)
    if nodes == IDS:
        return tuple(sorted(json.loads(data)["subscription"]))
    return len(json.loads(data)["partitions"]) if nodes == TOPICS else data


def _create(nodes: Nodes, group: str, request: Request, key: Any, value: Any) -> bool:
    """Create a node; return whether it is ours."""
    data = _thread_of(value)
    if request.nodes == IDS:
        subscription = dict.fromkeys(value, 1)
        registration = {"version": 1, "subscription": subscription, "pattern": "static"}
        data = json.dumps({**registration, "timestamp": str(time.time_ns() // 1_000_000)}).encode()
    path = path_of(group, request.nodes, key)
    try:
        nodes.create(path, data, ephemeral=True)
    except NodeExists:
        with suppress(NoNode):
            return request.nodes == OWNERS and nodes.data(path, watch=False) == data
        return False
    return True


def _thread_of(identity: Any) -> bytes:
    """Return the value of an owner node: the first thread of a consumer."""
    return f"{identity}-0".encode()


class KazooNodes:
    """The operations, with kazoo behind them."""

    def __init__(self, client: Any, changed: Any) -> None:
        """Use a client of kazoo; `changed` is called, in its thread, when a watch fires."""
        self._client = client
        self._changed = changed

    def children(self, path: str, *, watch: bool) -> list[str]:
        """Return the names of the children; none if the node does not exist."""
        from kazoo.exceptions import NoNodeError

        try:
            names: list[str] = self._client.get_children(path, self._watch(watch=watch))
        except NoNodeError:
            return []
        return names

    def data(self, path: str, *, watch: bool) -> bytes:
        """Return the data of a node."""
        from kazoo.exceptions import NoNodeError

        try:
            data: bytes = self._client.get(path, self._watch(watch=watch))[0]
        except NoNodeError:
            raise NoNode(path) from None
        return data

    def create(self, path: str, value: bytes, *, ephemeral: bool) -> None:
        """Create a node, and its parents."""
        from kazoo.exceptions import NodeExistsError

        try:
            self._client.create(path, value, ephemeral=ephemeral, makepath=True)
        except NodeExistsError:
            raise NodeExists(path) from None

    def delete(self, path: str) -> None:
        """Delete a node, if it exists."""
        from kazoo.exceptions import NoNodeError

        with suppress(NoNodeError):
            self._client.delete(path)

    def set(self, path: str, value: bytes) -> None:
        """Change the data of a node, which is created if it does not exist."""
        from kazoo.exceptions import NoNodeError

        try:
            self._client.set(path, value)
        except NoNodeError:
            self._client.create(path, value, makepath=True)

    def _watch(self, *, watch: bool) -> Any:
        return self._changed if watch else None


# -- the server ------------------------------------------------------------------------------------


def start_zookeeper(run: LiveRun) -> None:
    """Start a ZooKeeper if the user has given none.

    Raises:
        PartMissing: it can't be had.
        ProcessFailed: it does not start.
    """
    if run.zookeeper:
        return
    jars = jars_of(KAFKA_0_8, run.report)
    address = Address(_HOST, free_port())
    data = run.directory / "zookeeper"
    data.mkdir()
    configuration = run.directory / "zookeeper.cfg"
    configuration.write_text(
        f"tickTime={_TICK_MS}\ndataDir={data}\nclientPort={address.port}\n"
        f"clientPortAddress={_HOST}\nmaxClientCnxns=0\n",
        encoding="utf-8",
    )
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    options = (*SMALL_JAVA, *quiet_log(run))
    command = java_command(jars, main, [str(configuration)], heap_mb=96, options=options)
    run.children.start("zookeeper", command).wait_for_port(address, START_LIMIT_S)
    run.zookeeper = str(address)


def quiet_log(run: LiveRun) -> list[str]:
    """Return options of Java with which log4j writes warnings only."""
    path = run.directory / "log4j.properties"
    path.write_text(
        "log4j.rootLogger=WARN, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=%d %p %c %m%n\n",
        encoding="utf-8",
    )
    return [f"-Dlog4j.configuration=file:{path}"]


def announce_topics(run: LiveRun) -> None:
    """Write a broker and the topics of a run into ZooKeeper, as a broker of 0.8 would."""
    need_module("kazoo", "coterie[lab-live]")
    from kazoo.client import KazooClient

    client = KazooClient(run.zookeeper)
    client.start()
    try:
        nodes = KazooNodes(client, None)
        with suppress(NodeExists):
            nodes.create("/brokers/ids/0", b"{}", ephemeral=False)
        for topic, count in run.counts.items():
            partitions = {str(number): [0] for number in range(count)}
            text = json.dumps({"version": 1, "partitions": partitions})
            nodes.set(f"/brokers/topics/{topic}", text.encode())
    finally:
        client.stop()
        client.close()
