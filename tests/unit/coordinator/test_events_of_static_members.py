"""Events of static members: replacement, fencing, and a replacement that is taken back.

Rules: [journal/members].
"""

from coterie.protocol.errors import ErrorCode
from tests.unit.coordinator.harness import SALES, EventHarness, assert_fields


def static_pair() -> EventHarness:
    """Return a Stable group of the static members c1 and c2, with its events taken."""
    harness = EventHarness()
    harness.stable("c1", "c2", instances={"c1": "i1", "c2": "i2"})
    harness.events.clear()
    return harness


def test_restart_of_a_static_member_starts_no_rebalance() -> None:
    harness = static_pair()
    old_id = harness.id_of("c2")
    harness.client = harness.client._replace(software_name="librdkafka", software_version="2.5.0")
    harness.join("c2 again", instance="i2")
    (replaced,) = harness.take_facts()
    assert_fields(
        replaced,
        group_instance_id="i2",
        old_member_id=old_id,
        rebalances=False,
        client_id="c2 again",
        client_software_name="librdkafka",
        client_software_version="2.5.0",
    )
    harness.store()
    assert replaced.member_id == harness.id_of("c2 again") != old_id


def test_restart_that_changes_the_protocol_starts_a_rebalance() -> None:
    harness = EventHarness()
    both = (("range", SALES), ("sticky", SALES))
    harness.join("c1", instance="i1", protocols=both)
    harness.join("c2", instance="i2", protocols=both)
    harness.store()
    harness.wait(0)
    harness.sync("c1 syncs", harness.id_of("c1"), 1, {})
    harness.store()
    harness.events.clear()
    harness.join("c2 again", instance="i2", protocols=(("sticky", SALES),))
    replaced, began = harness.take_facts()
    assert replaced.rebalances
    assert_fields(
        began, cause="static replacement", group_instance_id="i2", member_id=replaced.member_id
    )


def test_delayed_join_of_the_replaced_process_is_fenced() -> None:
    harness = static_pair()
    harness.join(
        "c2 rejoins", harness.id_of("c2"), instance="i2", protocols=(("range", SALES + b"!"),)
    )
    harness.events.clear()
    harness.join("c2 again", instance="i2")
    fenced, replaced = harness.take_facts()
    assert harness.responses["c2 rejoins"].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert_fields(
        fenced,
        member_id=harness.id_of("c2"),
        group_instance_id="i2",
        holder=replaced.member_id,
        request="JoinGroup",
    )


def test_later_requests_of_the_replaced_process_are_fenced() -> None:
    harness = static_pair()
    harness.join("c2 again", instance="i2")
    harness.store()
    harness.events.clear()
    old_id, new_id = harness.id_of("c2"), harness.id_of("c2 again")
    harness.join("c2 joins late", old_id, instance="i2")
    harness.sync("c2 syncs late", old_id, 1, instance="i2")
    harness.remove((old_id, "i2"), to="c2 leaves")
    facts = harness.take_facts()
    assert [fact.request for fact in facts] == ["JoinGroup", "SyncGroup", "LeaveGroup"]
    assert {(fact.member_id, fact.holder) for fact in facts} == {(old_id, new_id)}
