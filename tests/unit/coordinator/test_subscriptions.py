"""Which topics of a group are in use: those of its last generation, whoever has joined since."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.unit.coordinator.desk import SALES, Desk

ORDERS = SALES.replace(b"\x05sales", b"\x06orders")


def used(desk: Desk, *topics: str) -> list[bool]:
    """Whether OffsetDelete takes each topic to be in use."""
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
            for topic in topics
        ],
    )
    answer: Any = desk.send(request, 0, "admin")
    codes = [topic.partitions[0].error_code for topic in answer.topics]
    assert set(codes) <= {ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    return [code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC for code in codes]


def test_topics_of_the_present_generation() -> None:
    desk = Desk()
    desk.stable("c1")
    assert used(desk, "sales", "orders") == [True, False]


def test_a_joiner_counts_from_its_first_generation_on() -> None:
    """It need not even offer the protocol of the generation that stands."""
    desk = Desk()
    desk.join("c1", protocols=(("range", SALES), ("sticky", SALES)))
    desk.store()
    desk.wait(0)
    desk.join("c2", protocols=(("sticky", ORDERS),))
    assert used(desk, "sales", "orders") == [True, False]
    desk.join("c1 again", desk.id_of("c1"), protocols=(("sticky", SALES),))
    assert used(desk, "sales", "orders") == [True, True]


def test_a_restart_reads_them_from_the_log() -> None:
    desk = Desk()
    desk.stable("c1")
    desk.restart()
    assert used(desk, "sales", "orders") == [True, False]


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\0\0\0\0\x01", b"\xff\xff\0\0\0\0"])
def test_what_cannot_be_read_counts_as_all_topics(metadata: bytes) -> None:
    desk = Desk()
    desk.join("c1", protocols=(("range", metadata),))
    desk.store()
    desk.wait(0)
    assert used(desk, "sales", "orders") == [True, True]


def test_before_the_first_generation_nobody_can_tell() -> None:
    desk = Desk(group_initial_rebalance_delay_ms=3_000)
    desk.join("c1")
    desk.store()
    assert used(desk, "sales") == [True]


def test_the_empty_generation_uses_nothing() -> None:
    desk = Desk(group_initial_rebalance_delay_ms=3_000)
    desk.join("c1")
    desk.store()
    desk.wait(3_000)
    desk.leave("c1 leaves", desk.id_of("c1"))
    desk.store()
    assert used(desk, "sales") == [False]
    desk.join("c2")
    assert used(desk, "sales") == [False]


def test_later_versions_of_a_subscription_are_read_as_the_first() -> None:
    desk = Desk()
    owned = b"\0\x03" + SALES[2:] + b"\0\0\0\0" + b"\0\0\0\x07" + b"\xff\xff"
    desk.join("c1", protocols=(("range", owned),))
    desk.store()
    desk.wait(0)
    assert used(desk, "sales", "orders") == [True, False]
