"""What only a broker itself tells of a group: read in its process, and over a control port."""

import threading
from functools import partial
from typing import Any

from prometheus_client import Metric

from coterie.client.cluster import Cluster
from coterie.client.control_port import ControlPort
from coterie.client.http_port import HttpAnswer
from coterie.console.over_control import HttpControl, present_over
from coterie.console.places import Place
from coterie.console.serving import ConsoleServer
from coterie.server.beside import inside_of
from coterie.server.metrics.metrics import collect
from coterie.testing import Broker
from tests.interop.group_members import ClassicMember
from tests.live.console.pages import LIMIT_S, page
from tests.live.deadlines import eventually
from tests.live.testing.test_console import asked
from tests.live.testing.test_share_groups import GROUP, working
from tests.unit.control.asking import Asking

# The longest one that is allowed: the members of this test send no heartbeats.
SESSION_MS = 1_800_000


class AskedPort(ControlPort):
    """A control port that is asked without a socket."""

    asking: Asking

    @classmethod
    def over(cls, broker: Broker) -> "AskedPort":
        port = cls("http://127.0.0.1:1", "", LIMIT_S)
        port.asking = Asking(broker)
        return port

    def send(self, method: str, path: str, body: Any = None) -> HttpAnswer:
        answered = self.asking.ask(method, path, body)
        return HttpAnswer(answered.status, answered.body)


def one_waits_for(broker: Broker) -> tuple[list[ClassicMember], list[threading.Thread]]:
    """Return three members, of which the first and the last have sent their JoinGroup."""
    servers = broker.bootstrap_servers
    members = [ClassicMember("g", "orders", SESSION_MS) for _ in range(3)]
    started = []

    def start(member: ClassicMember) -> threading.Thread:
        joining = threading.Thread(target=member.join, args=(servers,), daemon=True)
        joining.start()
        started.append(joining)
        return joining

    group = broker.group("g")
    members[0].join(servers)
    members[0].sync(servers, range(2))
    second = start(members[1])
    group_has(broker, 2)
    members[0].join(servers)
    second.join(LIMIT_S)
    members[0].sync(servers, range(2))
    start(members[2])
    group_has(broker, 3)
    start(members[0])
    eventually(
        lambda: [each.waits_for for each in group.sessions].count("JoinGroup") == 2,
        "two have sent JoinGroup",
    )
    return members, started


def group_has(broker: Broker, count: int) -> None:
    eventually(lambda: len(broker.group("g").members) == count, f"the group has {count} members")


def values(metrics: list[Metric], name: str) -> dict[str, float]:
    """Return the values of a metric by its label, those that are not zero."""
    (found,) = [each for each in metrics if each.name == name]
    return {"".join(each.labels.values()): each.value for each in found.samples if each.value}


def test_who_has_rejoined_is_told_in_the_process_and_over_a_control_port() -> None:
    config = {"group.initial.rebalance.delay.ms": "0"}
    with Broker(topics={"orders": 2}, config=config) as broker:
        members, started = one_waits_for(broker)
        first, missing, third = (each._member_id for each in members)
        inside = inside_of(lambda: broker.servers, "never")
        near = inside.present("g")
        far = present_over(HttpControl(AskedPort.over(broker)), "g")
        assert near is not None
        assert far is not None
        for present in (near, far):
            owed = {name: each.waits_for for name, each in present.sessions.items()}
            assert owed == {first: "JoinGroup", missing: None, third: "JoinGroup"}
            assert {each.timeout_ms for each in present.sessions.values()} == {SESSION_MS}
        assert near.waits_for is not None
        assert near.waits_for.startswith("JoinGroup of interop, at most ")
        assert inside.present("none") is None

        servers = broker.bootstrap_servers
        place = Place(partial(Cluster, servers), servers, inside=inside)
        with ConsoleServer(place) as served, page(served, "/api/groups/g/events") as seen:
            told = seen.wait("group", lambda data: data["phase"]["waits_for"]).data
            (wait,) = told["phase"]["waits_for"]
            assert (wait["consumer_id"], wait["is_certain"]) == (missing, True)
            assert len(told["phase"]["joined"]) == 2
            by_id = {each["consumer_id"]: each for each in told["members"]}
            assert 0 < by_id[missing]["session_left_ms"] <= SESSION_MS
            # A member that waits for its answer does not lose its session.
            assert by_id[first]["session_left_ms"] is None
            assert by_id[missing]["last_heartbeat_ms"] <= told["at_ms"]
            # One model: the head of the console counts as the metrics do.
            with page(served, "/api/events") as all_groups:
                head = all_groups.wait("cluster", lambda data: data.get("requests_per_s")).data
            # The head of the group's own page has the same figures.
            own = seen.wait("cluster", lambda data: data.get("requests_per_s")).data
            assert (own["state"], own["started_ms"]) == ("live", head["started_ms"])
            metrics = broker.thread.run(collect(broker.servers[0]))
            assert head["states"] == values(metrics, "kafka_coordinator_group_groups")
            assert values(metrics, "coterie_group_members") == {"": len(members)}
            # The end of the rebalance is seen, too.
            members[1].join(servers)
            for each in started:
                each.join(LIMIT_S)
            seen.wait("group", lambda data: data["state"] == "CompletingRebalance")


def test_locks_of_a_share_group_are_told() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", "tea", "milk")
        with working(broker) as worker, broker.console() as opened:
            worker.take()
            broker.group(GROUP).wait_acquired(2)
            inside = inside_of(lambda: broker.servers, "never")
            near = inside.present(GROUP)
            assert near is not None
            assert near.records is not None
            (held,) = near.records
            assert (held.topic, held.partition, near.delivery_limit) == ("orders", 0, 5)
            (member,) = broker.group(GROUP).members
            assert held.records[:5] == (0, 1, "ACQUIRED", 1, member.member_id)
            (row,) = asked(opened, "GET", f"/api/groups/{GROUP}")["records"]
            assert row["member"].startswith("one ")
            assert 0 < row["lock_ms"] <= 30_000
            assert (row["topic"], row["first_offset"], row["last_offset"]) == ("orders", 0, 1)
