"""What the coordinator says of static members: restarts, fencing, and what is taken back."""

from coterie.protocol.errors import ErrorCode
from tests.unit.coordinator.desk import SALES
from tests.unit.coordinator.listener import Listener, told


def statics() -> Listener:
    desk = Listener()
    desk.stable("c1", "c2", instances={"c1": "i1", "c2": "i2"})
    desk.events.clear()
    return desk


def test_a_static_member_that_is_started_again_costs_nothing() -> None:
    desk = statics()
    old_id = desk.id_of("c2")
    desk.join("c2 again", instance="i2")
    (replaced,) = desk.heard()
    assert told(replaced, "group_instance_id", "old_member_id", "rebalances", "client_id") == {
        "group_instance_id": "i2",
        "old_member_id": old_id,
        "rebalances": False,
        "client_id": "c2 again",
    }
    desk.store()
    assert replaced.member_id == desk.id_of("c2 again") != old_id


def test_one_that_changes_the_protocol_costs_a_rebalance() -> None:
    desk = Listener()
    both = (("range", SALES), ("sticky", SALES))
    desk.join("c1", instance="i1", protocols=both)
    desk.join("c2", instance="i2", protocols=both)
    desk.store()
    desk.wait(0)
    desk.sync("c1 syncs", desk.id_of("c1"), 1, {})
    desk.store()
    desk.events.clear()
    desk.join("c2 again", instance="i2", protocols=(("sticky", SALES),))
    replaced, began = desk.heard()
    assert replaced.rebalances
    assert told(began, "cause", "group_instance_id", "member_id") == {
        "cause": "static replacement",
        "group_instance_id": "i2",
        "member_id": replaced.member_id,
    }


def test_the_older_process_of_an_instance_is_fenced_where_it_waits() -> None:
    desk = statics()
    desk.join("c2 rejoins", desk.id_of("c2"), instance="i2", protocols=(("range", SALES + b"!"),))
    desk.events.clear()
    desk.join("c2 again", instance="i2")
    fenced, replaced = desk.heard()
    assert desk.answers["c2 rejoins"].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert told(fenced, "member_id", "group_instance_id", "holder", "request") == {
        "member_id": desk.id_of("c2"),
        "group_instance_id": "i2",
        "holder": replaced.member_id,
        "request": "JoinGroup",
    }


def test_the_older_process_of_an_instance_is_fenced_when_it_asks() -> None:
    desk = statics()
    desk.join("c2 again", instance="i2")
    desk.store()
    desk.events.clear()
    old_id, new_id = desk.id_of("c2"), desk.id_of("c2 again")
    desk.join("c2 asks", old_id, instance="i2")
    desk.sync("c2 syncs late", old_id, 1, instance="i2")
    desk.remove((old_id, "i2"), to="c2 leaves")
    facts = desk.heard()
    assert [fact.request for fact in facts] == ["JoinGroup", "SyncGroup", "LeaveGroup"]
    assert {(fact.member_id, fact.holder) for fact in facts} == {(old_id, new_id)}


def test_a_restart_that_could_not_be_written_is_taken_back() -> None:
    desk = statics()
    old_id = desk.id_of("c2")
    desk.join("c2 again", instance="i2")
    (replaced,) = desk.heard()
    desk.lose()
    (restored,) = desk.heard()
    assert told(restored, "group_instance_id", "member_id", "old_member_id") == {
        "group_instance_id": "i2",
        "member_id": old_id,
        "old_member_id": replaced.member_id,
    }
