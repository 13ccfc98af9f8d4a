"""Limits of the coordinator that Kafka does not have."""

import pytest

from coterie.coordinator.groups.classic import join
from coterie.protocol.errors import ErrorCode
from tests.unit.coordinator.harness import UnitHarness


def test_group_has_a_limited_number_of_pending_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """[joining/pending-member]"""
    monkeypatch.setattr(join, "MAX_PENDING_JOINS", 2)
    harness = UnitHarness()
    for name in ("a", "b"):
        harness.join(name, version=4)
        harness.store()
        assert harness.responses[name].error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert harness.join("c", version=4).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.join("a joins", harness.id_of("a"), version=4)
    assert harness.join("c again", version=4).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_number_of_groups_is_limited() -> None:
    """[coordinator/group-limit]"""
    harness = UnitHarness(max_groups=2)
    harness.join("a", group_id="g1", version=4)
    harness.commit("b", 1, group_id="g2")
    harness.store()
    assert harness.responses["a"].error_code == ErrorCode.MEMBER_ID_REQUIRED
    refused = harness.join("c", group_id="g3", version=4)
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    refused = harness.commit("d", 1, group_id="g3")
    assert refused.topics[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION
    assert harness.join("e", group_id="g1", version=4).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert harness.coordinator.group("g3") is None


def test_number_of_groups_of_all_partitions_is_limited() -> None:
    """[coordinator/group-limit]"""
    harness = UnitHarness(max_groups=10, offsets_topic_num_partitions=4)
    errors = []
    for number in range(30):
        name = f"g{number}"
        harness.join(name, group_id=name, version=4)
        harness.store(harness.coordinator.partition_for(name))
        errors.append(harness.responses[name].error_code)
    assert sum(1 for _ in harness.coordinator.groups()) == 10
    assert errors.count(ErrorCode.MEMBER_ID_REQUIRED) == 10
    assert errors.count(ErrorCode.POLICY_VIOLATION) == 20


def test_groups_of_one_partition_are_limited_to_twice_its_share() -> None:
    """[coordinator/group-limit]"""
    harness = UnitHarness(max_groups=10, offsets_topic_num_partitions=10)
    partition = harness.coordinator.partition_for("g0")
    same = [
        name
        for name in (f"g{number}" for number in range(100))
        if harness.coordinator.partition_for(name) == partition
    ]
    errors = []
    for name in same[:5]:
        harness.join(name, group_id=name, version=4)
        harness.store(partition)
        errors.append(harness.responses[name].error_code)
    assert errors == [ErrorCode.MEMBER_ID_REQUIRED] * 3 + [ErrorCode.POLICY_VIOLATION] * 2


def test_a_session_of_0_ms_ends_at_once() -> None:
    """[joining/order-of-checks]: `group.min.session.timeout.ms` may be 0, as in Kafka's tests."""
    harness = UnitHarness(group_min_session_timeout_ms=0)
    harness.join("a", session_ms=0)
    harness.store()
    harness.wait(0)
    assert harness.heartbeat(harness.id_of("a"), 1) == ErrorCode.UNKNOWN_MEMBER_ID
