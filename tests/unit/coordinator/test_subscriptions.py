"""The subscribed topics of a group: those of its last generation."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.unit.coordinator.harness import SALES, UnitHarness

ORDERS = SALES.replace(b"\x05sales", b"\x06orders")


def in_use(harness: UnitHarness, *topics: str) -> list[bool]:
    """Return for each topic whether OffsetDelete refuses to delete its offsets."""
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
            for topic in topics
        ],
    )
    response: Any = harness.send(request, 0, "admin")
    codes = [topic.partitions[0].error_code for topic in response.topics]
    assert set(codes) <= {ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    return [code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC for code in codes]


def test_topics_of_the_present_generation_are_in_use() -> None:
    harness = UnitHarness()
    harness.stable("c1")
    assert in_use(harness, "sales", "orders") == [True, False]


def test_new_member_counts_from_its_first_generation_on() -> None:
    """Even if it does not support the protocol of the present generation."""
    harness = UnitHarness()
    harness.join("c1", protocols=(("range", SALES), ("sticky", SALES)))
    harness.store()
    harness.wait(0)
    harness.join("c2", protocols=(("sticky", ORDERS),))
    assert in_use(harness, "sales", "orders") == [True, False]
    harness.join("c1 again", harness.id_of("c1"), protocols=(("sticky", SALES),))
    assert in_use(harness, "sales", "orders") == [True, True]


def test_subscriptions_are_restored_from_the_log() -> None:
    harness = UnitHarness()
    harness.stable("c1")
    harness.restart()
    assert in_use(harness, "sales", "orders") == [True, False]


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\0\0\0\0\x01", b"\xff\xff\0\0\0\0"])
def test_unreadable_metadata_counts_as_all_topics(metadata: bytes) -> None:
    """[offsets/unknown-subscriptions]"""
    harness = UnitHarness()
    harness.join("c1", protocols=(("range", metadata),))
    harness.store()
    harness.wait(0)
    assert in_use(harness, "sales", "orders") == [True, True]


def test_before_the_first_generation_all_topics_are_in_use() -> None:
    harness = UnitHarness(group_initial_rebalance_delay_ms=3_000)
    harness.join("c1")
    harness.store()
    assert in_use(harness, "sales") == [True]


def test_empty_generation_uses_no_topic() -> None:
    harness = UnitHarness(group_initial_rebalance_delay_ms=3_000)
    harness.join("c1")
    harness.store()
    harness.wait(3_000)
    harness.leave("c1 leaves", harness.id_of("c1"))
    harness.store()
    assert in_use(harness, "sales") == [False]
    harness.join("c2")
    assert in_use(harness, "sales") == [False]


def test_later_versions_are_read_as_version_0() -> None:
    harness = UnitHarness()
    owned = b"\0\x03" + SALES[2:] + b"\0\0\0\0" + b"\0\0\0\x07" + b"\xff\xff"
    harness.join("c1", protocols=(("range", owned),))
    harness.store()
    harness.wait(0)
    assert in_use(harness, "sales", "orders") == [True, False]
