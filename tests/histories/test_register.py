"""The check of histories agrees with a search through all orders, on random histories."""

import math
import random
import time

import pytest

from tests.histories.register import INITIAL, Kind, Operation, contradiction

HISTORIES = 20_000
# As many operations as the search through all orders decides quickly.
MOST_OPERATIONS = 7


def has_an_order(history: list[Operation]) -> bool:
    """Try all orders that real time allows, for a register that begins with INITIAL."""

    def search(left: frozenset[int], value: int) -> bool:
        certain = [each for each in left if not math.isinf(history[each].end)]
        if not certain:
            return True
        first_end = min(history[each].end for each in left)
        for each in left:
            operation = history[each]
            if operation.begin > first_end:
                continue
            if operation.kind is Kind.WRITE and search(left - {each}, operation.value):
                return True
            if operation.kind is Kind.READ and operation.value == value:
                return search(left - {each}, value)
        return False

    return search(frozenset(range(len(history))), INITIAL)


def random_history(chance: random.Random) -> list[Operation]:
    """Return operations at random; about a third of such histories have no order."""
    writes = chance.randint(1, MOST_OPERATIONS - 1)
    history = []
    for number in range(chance.randint(writes, MOST_OPERATIONS)):
        begin = chance.randint(0, 20)
        end: float = begin + chance.randint(0, 8)
        if number < writes:
            end = math.inf if chance.random() < 0.2 else end
            history.append(Operation(Kind.WRITE, number, begin, end))
        else:
            history.append(Operation(Kind.READ, chance.randint(INITIAL, writes - 1), begin, end))
    return history


def test_agrees_with_a_search_through_all_orders() -> None:
    chance = random.Random(28)
    without_order = 0
    for _ in range(HISTORIES):
        history = random_history(chance)
        expected = has_an_order(history)
        found = contradiction(history)
        assert (found is None) == expected, f"{found}: {'; '.join(map(str, history))}"
        without_order += not expected
    assert HISTORIES / 10 < without_order < HISTORIES * 9 / 10


def write(value: int, begin: float, end: float = math.inf) -> Operation:
    return Operation(Kind.WRITE, value, begin, end, "c1")


def read(value: int, begin: float, end: float) -> Operation:
    return Operation(Kind.READ, value, begin, end, "c2")


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([write(1, 0, 1), read(1, 2, 3)], None),
        ([write(1, 0, 1), read(INITIAL, 2, 3)], "two values must each come before the other"),
        ([write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)], "two values"),
        ([write(1, 0, 1), write(2, 2), read(1, 4, 5), read(2, 6, 7)], None),
        ([write(1, 0, 1), write(2, 2), read(2, 4, 5), read(1, 6, 7)], "two values"),
        ([read(7, 0, 1)], "never written: c2 read 7 [0.0000, 1.0000]"),
        ([read(7, 0, 1), write(7, 2, 3)], "read before it was written"),
        # A commit that was refused may have happened, and may happen later.
        ([write(1, 0), read(INITIAL, 1, 2), read(1, 3, 4)], None),
    ],
)
def test_contradictions(history: list[Operation], expected: str | None) -> None:
    found = contradiction(history)
    assert (found is None) == (expected is None)
    assert (found or "").startswith(expected or "")


def test_two_writes_of_one_value_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="written twice"):
        contradiction([write(1, 0, 1), write(1, 2, 3)])


def test_long_histories_are_decided_quickly() -> None:
    count = 100_000
    history = [write(each, each, each + 1.5) for each in range(count)]
    history += [read(each, each + 1, each + 1.7) for each in range(count)]
    began_s = time.monotonic()
    assert contradiction(history) is None
    assert time.monotonic() - began_s < 30
    late = read(count // 2, count, count + 1)
    assert "two values" in (contradiction([*history, late]) or "")
