"""Mistakes of our own code in the coordinators are noticed before they are written to a log.

Each of these calls is one that no right code makes.
"""

from collections.abc import Callable

import pytest

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.pending_offsets import PendingOffsets
from coterie.coordinator.groups.replay import LoggedState
from coterie.coordinator.kernel.append import Append
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.transactions.transaction import Transaction, WaitingEnd
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue
from coterie.protocol.wire import ZERO_UUID


def append_nothing() -> None:
    Append(0, [])


def absorb_what_is_not_written() -> None:
    verb: Effects[None] = Effects()
    verb.operation = Operation("g")
    whole: Effects[None] = Effects()
    whole.absorb(verb)


def take_records_twice() -> None:
    operation = Operation("g", [(OffsetCommitKey.of("g", "t", 0), None)])
    operation.take_records()
    operation.take_records()


def count_an_offset_twice() -> None:
    pending = PendingOffsets()
    value = OffsetCommitValue.of(1, -1, "", 0, -1, ZERO_UUID)
    pending.add(7, 0, OffsetCommitKey.of("g", "t", 0), value)
    pending.by_topic["t"]["g"] = 0
    pending.end(7)


def remove_a_topic_with_offsets() -> None:
    logged = LoggedState({})
    logged.add_topic("g", "t")[0] = OffsetCommitValue.of(1, -1, "", 0, -1, ZERO_UUID)
    logged.remove_topic("g", "t")


def forget_an_id_in_use() -> None:
    Transaction("id", 7, 0).tombstone()


def decide_while_another_end_waits() -> None:
    transaction = Transaction("id", 7, 0)
    transaction.waiting_end = WaitingEnd("client", 3)
    transaction.prepare(commit=False, level=2, next_id=-1, now_ms=1)


def log_subscriptions_of_others() -> None:
    Group("g", 0).set_subscriptions([b"of nobody"])


MISTAKES: list[tuple[Callable[[], None], str]] = [
    (append_nothing, "writes something"),
    (absorb_what_is_not_written, "takes an operation first"),
    (take_records_twice, "taken once"),
    (count_an_offset_twice, "counted once"),
    (remove_a_topic_with_offsets, "has offsets"),
    (forget_an_id_in_use, "is in use"),
    (decide_while_another_end_waits, "another EndTxn"),
    (log_subscriptions_of_others, "another number of members"),
]


@pytest.mark.parametrize(("mistake", "noticed"), MISTAKES)
def test_a_mistake_is_noticed(mistake: Callable[[], None], noticed: str) -> None:
    with pytest.raises(AssertionError, match=noticed):
        mistake()
