"""The simulated old consumer and the live one do the same with ZooKeeper."""

import json

import pytest

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.model import MemberSubscription, TopicPartition
from coterie.lab.environment import Environment
from coterie.lab.live.zookeeper import NodeExists, NoNode, path_of, perform
from coterie.lab.machines.ensemble import Ensemble, Session
from coterie.lab.machines.old_consumer import ZooKeeperGroup
from coterie.lab.machines.old_consumer_work import (
    IDS,
    OWNERS,
    OldConsumerWork,
    Request,
    Requests,
    Sleep,
    StartFetchers,
    StopFetchers,
    Stopped,
    Work,
)
from coterie.lab.parameters import Parameters

TOPIC = "t"
PARTITIONS = 6


class FakeZooKeeper:
    """The nodes of a ZooKeeper in memory, and the paths of the requests."""

    def __init__(self) -> None:
        partitions = {str(number): [0] for number in range(PARTITIONS)}
        self.nodes = {
            "/brokers/ids/0": b"{}",
            f"/brokers/topics/{TOPIC}": json.dumps({"partitions": partitions}).encode(),
        }
        self.requests: list[tuple[str, str]] = []

    def children(self, path: str, *, watch: bool) -> list[str]:
        self.requests.append(("getChildren", path))
        names = (name for name in self.nodes if name.startswith(f"{path}/"))
        return [name.removeprefix(f"{path}/") for name in names]

    def data(self, path: str, *, watch: bool) -> bytes:
        self.requests.append(("getData", path))
        if path not in self.nodes:
            raise NoNode(path)
        return self.nodes[path]

    def create(self, path: str, value: bytes, *, ephemeral: bool) -> None:
        self.requests.append(("create", path))
        if path in self.nodes:
            raise NodeExists(path)
        self.nodes[path] = value

    def delete(self, path: str) -> None:
        self.requests.append(("delete", path))
        self.nodes.pop(path, None)

    def set(self, path: str, value: bytes) -> None:
        self.requests.append(("setData", path))
        self.nodes[path] = value


class Consumer:
    """A consumer whose work is done at once, and what it reads."""

    def __init__(self, identity: str, topics: tuple[str, ...] = (TOPIC,)) -> None:
        self.logic = OldConsumerWork(identity, topics, 4, 2_000)
        self.reads: dict[TopicPartition, int] = {}
        self.slept_ms = 0

    def stop(self) -> Stopped:
        owned = sorted(self.reads)
        changed = {each: offset + 5 for each, offset in self.reads.items()}
        self.reads = {}
        return Stopped(owned, changed)

    def do(self, work: Work, perform_one: object) -> None:
        assert callable(perform_one)
        result: object = None
        while True:
            try:
                wanted = work.send(result)
            except StopIteration:
                return
            result = None
            if isinstance(wanted, Requests):
                result = [perform_one(request) for request in wanted.all]
            elif isinstance(wanted, StopFetchers):
                result = self.stop()
            elif isinstance(wanted, StartFetchers):
                self.reads = dict(wanted.offsets)
            elif isinstance(wanted, Sleep):
                self.slept_ms += wanted.ms


class Simulated:
    """The ensemble of a run, asked without its network."""

    def __init__(self) -> None:
        environment = Environment(0, 1, PARTITIONS, Parameters(zk_lag_ms=0.0), keep_trace=False)
        self.ensemble: Ensemble = ZooKeeperGroup(environment).ensemble
        self.environment = environment
        self.sessions: dict[str, Session] = {}
        self.requests: list[tuple[str, str]] = []

    def perform(self, identity: str, request: Request) -> object:
        if identity not in self.sessions:
            pod = self.environment.pod(identity)
            pod.keeps_identity = True
            self.sessions[identity] = self.ensemble.connect(pod)
        keys = request.keys or (None,)
        self.requests += [(request.api, path_of("g", request.nodes, key)) for key in keys]
        session = self.sessions[identity]
        return self.ensemble.perform(session, self.ensemble.latest, request)


def test_simulated_and_live_consumers_send_the_same_requests() -> None:
    simulated, fake = Simulated(), FakeZooKeeper()
    models, ports = {}, {}
    for identity in ("pod-0", "pod-1", "pod-2"):
        newcomer, new_port = Consumer(identity), Consumer(identity)
        models[identity], ports[identity] = newcomer, new_port
        newcomer.do(
            newcomer.logic.register(), lambda each, who=identity: simulated.perform(who, each)
        )
        new_port.do(new_port.logic.register(), lambda each: perform(fake, "g", each))
        # The newcomer meets the nodes of the others, gives up, and gets them at the next event.
        for name, model in models.items():
            port = ports[name]
            model.do(
                model.logic.watch_and_rebalance(),
                lambda each, who=name: simulated.perform(who, each),
            )
            port.do(port.logic.watch_and_rebalance(), lambda each: perform(fake, "g", each))
            assert model.reads == port.reads
            assert model.slept_ms == port.slept_ms
    # Besides, the live one reads each owner node that it finds.
    found = [each for each in fake.requests if each[0] != "getData" or "/owners/" not in each[1]]
    assert simulated.requests == found
    assert {each for port in ports.values() for each in port.reads} == {
        TopicPartition(TOPIC, number) for number in range(PARTITIONS)
    }


@pytest.mark.parametrize(("present", "created"), [(b"a-0", True), (b"b-0", False)])
def test_owner_node_of_another_is_a_conflict(present: bytes, created: bool) -> None:
    fake = FakeZooKeeper()
    partition = TopicPartition(TOPIC, 0)
    fake.nodes["/consumers/g/owners/t/0"] = present
    got = perform(fake, "g", Request("create", OWNERS, (partition,), ("a",)))
    assert got == ((partition,) if created else ())
    assert fake.nodes["/consumers/g/owners/t/0"] == present


def test_registration_is_that_of_kafka_0_8() -> None:
    fake = FakeZooKeeper()
    consumer = Consumer("pod-0")
    consumer.do(consumer.logic.register(), lambda each: perform(fake, "g", each))
    node = json.loads(fake.nodes["/consumers/g/ids/pod-0"])
    assert node["version"] == 1
    assert node["subscription"] == {TOPIC: 1}
    assert fake.nodes["/consumers/g/owners/t/0"] == b"pod-0-0"


def test_shares_are_those_of_range() -> None:
    counts = {"a": 5, "b": 4}
    simulated = FakeZooKeeper()
    for topic, count in counts.items():
        partitions = {str(number): [0] for number in range(count)}
        simulated.nodes[f"/brokers/topics/{topic}"] = json.dumps(
            {"partitions": partitions}
        ).encode()
    topics = {"m0": ("a", "b"), "m1": ("b",), "m2": ("a", "b"), "m3": ("a",)}
    consumers = {name: Consumer(name, own) for name, own in topics.items()}
    for consumer in consumers.values():
        perform(
            simulated,
            "g",
            Request("create", IDS, (consumer.logic.identity,), (consumer.logic.topics,)),
        )
    for _ in range(2):
        for consumer in consumers.values():
            consumer.do(
                consumer.logic.watch_and_rebalance(), lambda each: perform(simulated, "g", each)
            )
    expected = ASSIGNORS["range"](counts, [MemberSubscription(*each) for each in topics.items()])
    assert {name: sorted(each.reads) for name, each in consumers.items()} == expected
