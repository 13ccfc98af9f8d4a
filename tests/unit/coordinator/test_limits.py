"""Limits of the coordinator that Kafka does not have."""

import pytest

from coterie.coordinator import join
from coterie.protocol.errors import ErrorCode
from tests.unit.coordinator.desk import Desk


def test_group_has_a_limited_number_of_pending_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """[joining/pending-member-limit]"""
    monkeypatch.setattr(join, "MAX_PENDING_JOINS", 2)
    desk = Desk()
    for name in ("a", "b"):
        desk.join(name, version=4)
        desk.store()
        assert desk.answers[name].error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert desk.join("c", version=4).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    desk.join("a joins", desk.id_of("a"), version=4)
    assert desk.join("c again", version=4).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_number_of_groups_is_limited() -> None:
    """[coordinator/group-limit]"""
    desk = Desk(max_groups=2)
    desk.join("a", group_id="g1", version=4)
    desk.commit("b", 1, group_id="g2")
    desk.store()
    assert desk.answers["a"].error_code == ErrorCode.MEMBER_ID_REQUIRED
    refused = desk.join("c", group_id="g3", version=4)
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    refused = desk.commit("d", 1, group_id="g3")
    assert refused.topics[0].partitions[0].error_code == ErrorCode.POLICY_VIOLATION
    assert desk.join("e", group_id="g1", version=4).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert desk.coordinator.group("g3") is None


def test_groups_of_one_partition_are_limited_to_twice_its_share() -> None:
    """[coordinator/group-limit]"""
    desk = Desk(max_groups=10, offsets_topic_num_partitions=10)
    partition = desk.coordinator.partition_for("g0")
    same = [
        name
        for name in (f"g{number}" for number in range(100))
        if desk.coordinator.partition_for(name) == partition
    ]
    errors = []
    for name in same[:5]:
        desk.join(name, group_id=name, version=4)
        desk.store(partition)
        errors.append(desk.answers[name].error_code)
    assert errors == [ErrorCode.MEMBER_ID_REQUIRED] * 3 + [ErrorCode.POLICY_VIOLATION] * 2
