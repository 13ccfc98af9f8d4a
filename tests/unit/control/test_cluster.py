"""The control port of several brokers, asked in memory: what each operation does, and refuses."""

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.control.page import page
from coterie.testing import Cluster, cluster
from tests.unit.control.asking import Asking

NODES = {1, 2, 3}


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    """Three brokers, whose topic has a partition led by each."""
    with cluster() as running:
        running.topic("orders", replicas=[[1, 2], [2, 3], [3, 1]])
        yield running


@pytest.fixture
def asking(kafka: Cluster) -> Asking:
    """Their control port."""
    return Asking(kafka)


def done(asking: Asking, method: str, path: str, body: Any = None, query: str = "") -> Any:
    answered = asking.ask(method, path, body, query=query)
    assert answered.status == 200, answered.body
    return answered.body


def refused(asking: Asking, path: str, body: Any = None, method: str = "POST") -> str:
    answered = asking.ask(method, path, body)
    assert (answered.status, answered.body["kind"]) == (400, "WrongUse"), answered
    return str(answered.body["error"])


def broker(asking: Asking, node_id: int) -> Any:
    (found,) = (
        each for each in done(asking, "GET", "/cluster")["brokers"] if each["node_id"] == node_id
    )
    return found


def test_state_shows_what_each_broker_leads(kafka: Cluster, asking: Asking) -> None:
    state = done(asking, "GET", "/cluster")
    assert [each["node_id"] for each in state["brokers"]] == [1, 2, 3]
    assert [each["leads"]["orders"] for each in state["brokers"]] == [[0], [1], [2]]
    assert [each["address"] for each in state["brokers"]] == kafka.bootstrap_servers.split(",")
    assert {(each["state"], each["is_live"]) for each in state["brokers"]} == {("running", True)}
    assert (state["controller_id"], state["leaderless"]) == (1, {})
    bootstrap = kafka.bootstrap_servers
    assert done(asking, "GET", "/ready") == {"bootstrap_servers": bootstrap}


def test_broker_is_killed_and_started(asking: Asking) -> None:
    done(asking, "POST", "/brokers/2/kill")
    dead = broker(asking, 2)
    assert (dead["state"], dead["is_live"], dead["leads"]) == ("down", False, {})
    assert done(asking, "GET", "/topics/orders/leader", query="partition=1") == 3
    assert done(asking, "GET", "/topics/orders/isr", query="partition=0") == [1]
    assert refused(asking, "/brokers/2/kill") == "broker 2 does not run; those that do are 1, 3"
    assert refused(asking, "/topics/orders/move", {"to": 2}).startswith("broker 2 does not run")
    done(asking, "POST", "/brokers/2/start")
    assert broker(asking, 2)["state"] == "running"
    done(asking, "POST", "/topics/orders/wait/isr", {"isr": [1, 2]})
    assert refused(asking, "/brokers/2/start") == "broker 2 runs already"


def test_death_that_is_not_noticed_yet(asking: Asking) -> None:
    done(asking, "POST", "/brokers/2/kill", {"detect_ms": 300_000})
    dead = broker(asking, 2)
    assert (dead["state"], dead["is_live"], dead["leads"]["orders"]) == ("down", True, [1])
    answered = asking.ask("POST", "/topics/orders/wait/leader", {"partition": 1, "timeout_s": 0.01})
    assert (answered.status, answered.body["kind"]) == (408, "WaitTimedOut")
    assert "live brokers: 1, 3" in answered.body["error"]


def test_partition_without_a_leader_is_shown(asking: Asking) -> None:
    done(asking, "POST", "/topics", {"name": "alone", "replicas": [[2]]})
    done(asking, "POST", "/brokers/2/stop")
    assert done(asking, "GET", "/cluster")["leaderless"] == {"alone": [0]}
    assert done(asking, "GET", "/topics/alone/leader") is None
    assert "leads alone-0" in refused(asking, "/topics/alone/records", {"values": ["a"]})


def test_paused_broker_is_taken_for_dead_and_goes_on(asking: Asking) -> None:
    done(asking, "POST", "/brokers/1/pause", {"detect_ms": 0})
    done(asking, "POST", "/topics/orders/wait/leader", {"node_id": 2})
    paused = broker(asking, 1)
    assert (paused["state"], paused["is_live"]) == ("paused", False)
    # It runs, but the others would not follow it.
    text = "broker 1 is paused, and the others take it for dead"
    assert refused(asking, "/topics/orders/move", {"to": 1}) == text
    # Others answer what any broker can.
    assert done(asking, "POST", "/cluster/elect") == {}
    done(asking, "POST", "/brokers/1/resume")
    assert broker(asking, 1)["state"] == "running"
    assert refused(asking, "/brokers/1/resume") == "broker 1 is not paused"
    assert done(asking, "POST", "/cluster/elect", {"topic": "orders"}) == {"orders-0": 1}
    assert done(asking, "GET", "/topics/orders/epoch") == 2


def test_requests_of_the_port_pass_a_pause(asking: Asking) -> None:
    """Otherwise they would wait until the broker goes on."""
    done(asking, "POST", "/brokers/1/pause")
    assert done(asking, "POST", "/topics/orders/records", {"values": ["a"]}) == 0
    done(asking, "DELETE", "/topics/orders")


def test_leader_is_moved_and_elected_again(asking: Asking) -> None:
    done(asking, "POST", "/topics/orders/move", {"partition": 2, "to": 1})
    assert done(asking, "GET", "/topics/orders/leader", query="partition=2") == 1
    one = {"topic": "orders", "partition": 2}
    assert done(asking, "POST", "/cluster/elect", one) == {"orders-2": 3}
    assert "ELECTION_NOT_NEEDED" in refused(asking, "/cluster/elect", one)
    assert refused(asking, "/cluster/elect", {"partition": 2}) == "name the topic of the partition"
    assert refused(asking, "/cluster/elect", {"topic": "no"}) == "there is no topic 'no'"
    assert refused(asking, "/topics/orders/move", {"partition": 9, "to": 1}).endswith("orders-9")


def test_records_are_produced_read_and_cut_off(asking: Asking) -> None:
    for number in range(3):
        body = {"values": [f"v{number}"], "partition": 1}
        assert done(asking, "POST", "/topics/orders/records", body) == number
    done(asking, "POST", "/topics/orders/cut", {"partition": 1, "to_offset": 1})
    (left,) = done(asking, "GET", "/topics/orders/records", query="partition=1")
    assert (left["offset"], left["value"]) == (0, "v0")
    assert done(asking, "GET", "/topics/orders/leader", query="partition=1") == 3
    assert refused(asking, "/topics/orders/cut", {"partition": 1, "to_offset": 7})
    assert refused(asking, "/topics/orders/records", {"values": []}).startswith("there is nothing")
    assert done(asking, "GET", "/topics") == {"orders": 3}
    done(asking, "DELETE", "/topics/orders")
    assert done(asking, "GET", "/topics") == {}


def test_coordinators_are_moved(asking: Asking) -> None:
    old = done(asking, "GET", "/groups/billing/coordinator")
    to = next(iter(NODES - {old}))
    done(asking, "POST", "/groups/billing/move", {"to": to})
    done(asking, "POST", "/groups/billing/wait/coordinator", {"node_id": to})
    assert done(asking, "GET", "/groups/billing/coordinator") == to
    assert refused(asking, "/groups/billing/move", {"to": 9}) == (
        "there is no broker 9; there are 1, 2, 3"
    )
    assert refused(asking, "/transactions/tx/move", {"to": 1}).startswith("no transaction")


def test_clients_see_changes_later(kafka: Cluster, asking: Asking) -> None:
    done(asking, "POST", "/cluster/metadata_delay", {"milliseconds": 300_000})
    assert done(asking, "GET", "/cluster")["metadata_delay_ms"] == 300_000
    shown = kafka.server_cluster.brokers[1].image
    done(asking, "POST", "/topics/orders/move", {"to": 2})
    assert kafka.server_cluster.brokers[1].image is shown
    assert done(asking, "GET", "/topics/orders/leader") == 2


def test_clock_is_put_forward(kafka: Cluster, asking: Asking) -> None:
    before_ms = kafka.server_cluster.shared.environment.now_ms()
    done(asking, "POST", "/advance", {"seconds": 60})
    assert kafka.server_cluster.shared.environment.now_ms() >= before_ms + 60_000


def test_certificates_need_tls(asking: Asking) -> None:
    assert refused(asking, "/certificates/reload").startswith("this broker has no certificate")


def test_all_brokers_restart_and_lose_power(kafka: Cluster, asking: Asking) -> None:
    before = kafka.bootstrap_servers
    done(asking, "POST", "/flush")
    done(asking, "POST", "/topics/orders/records", {"values": ["a"]})
    done(asking, "POST", "/brokers/2/kill")
    done(asking, "POST", "/restart")
    assert broker(asking, 2)["state"] == "running"
    assert len(done(asking, "GET", "/topics/orders/records")) == 1
    done(asking, "POST", "/topics/orders/records", {"values": ["b"]})
    done(asking, "POST", "/lose_power")
    # A stop in order syncs, and so the first record is there.
    assert [each["value"] for each in done(asking, "GET", "/topics/orders/records")] == ["a"]
    assert kafka.bootstrap_servers == before
    done(asking, "POST", "/brokers/1/restart")
    assert refused(asking, "/brokers/9/restart") == "there is no broker 9; there are 1, 2, 3"


def test_what_is_for_one_broker_is_not_there(asking: Asking) -> None:
    answered = asking.ask("POST", "/kill")
    assert (answered.status, answered.body["kind"]) == (404, "NotFound")
    assert asking.ask("POST", "/brokers/x/kill").body["error"] == (
        "node_id: a whole number is wanted, not 'x'"
    )


def test_cluster_is_closed(kafka: Cluster, asking: Asking) -> None:
    done(asking, "POST", "/close")
    assert asking.was_closed
    answered = asking.ask("GET", "/ready")
    assert (answered.status, answered.body["kind"]) == (503, "BrokerNotStarted")
    assert "not running" in repr(kafka)


def test_page_lists_the_operations(asking: Asking) -> None:
    html = page(asking.application.operations).html
    assert "/brokers/{node_id}/kill" in html
    assert "<code>/kill</code>" not in html
