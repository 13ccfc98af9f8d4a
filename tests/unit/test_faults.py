"""The kinds of faults of planted bugs: what they change, and that they fit."""

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.faults import (
    Calling,
    Fault,
    Of,
    UnfitFault,
    answers,
    calling,
    confuses,
    does_nothing,
    given,
    gives_no_answer,
    keeps,
    lacking,
    mistaking,
    printed,
    where,
    with_first,
    without,
)
from tests.planting import Plant, planted

_LIMIT = 10
_OTHER = 20


class Pair(NamedTuple):
    """An object that cannot be changed."""

    number: int
    limit: int


class Box:
    """An object that holds another one."""

    def __init__(self) -> None:
        self.count = 1
        self.pair = Pair(1, 2)

    @property
    def size(self) -> int:
        return self.count

    def add(self, number: int, kind: str = "plain") -> int:
        self.count += number
        return self.count if kind == "plain" else -1

    def twice(self, number: int) -> int:
        self.add(number, "first")
        return self.add(number)

    def numbers(self) -> Iterator[int]:
        yield self.count
        yield self.count


def measure(box: Box, number: int = 0) -> int:
    """Return a number that depends on all that faults change."""
    return 1000 * _LIMIT + 100 * box.pair.number + 10 * box.count + number


def mixed() -> list[object]:
    """Return values of two types."""
    return [1, "one"]


def parts() -> tuple[int, object]:
    """Return two parts."""
    return 1, 2


def _at(name: str) -> str:
    return f"{__name__}:{name}"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (does_nothing, None),
        (gives_no_answer, None),
        (answers(7), 7),
        (confuses(10113, 5), 5),
        (confuses(10114, 5), 10113),
        (with_first(1), 10110),
        (given(number=5), 10115),
        (given(number=Of("box.count")), 10111),
        (given(number=Of("max(number, box.pair.limit)")), 10113),
        (given(number=Of("box.pair.limit + _LIMIT")), 10122),
        (given({"box.count": 9}), 10193),
        (given({"box.pair.number": 9, "box.count": 9}), 10993),
        (where(_LIMIT=1), 1113),
        (mistaking(_LIMIT="_OTHER"), 20113),
    ],
    ids=printed,
)
def test_a_function_has_a_fault(fault: Fault, expected: object) -> None:
    box, pair = Box(), Pair(1, 2)
    box.pair = pair
    with planted(Plant("a fault", _at("measure"), fault=fault)):
        assert measure(box, 3) == expected
    assert measure(box, 3) == 10113
    assert box.pair is pair


def test_a_fault_prints_as_it_is_written() -> None:
    fault: Fault | Calling = given({"box.count": 9}, number=Of("box.count"))
    assert repr(fault) == "given({'box.count': 9}, number=Of(expression='box.count'))"
    assert "answers(7)" in repr(Plant("a fault", "target", fault=calling("called", answers(7))))


def test_an_attribute_keeps_its_value() -> None:
    box = Box()
    with planted(Plant("a fault", _at("Box.add"), fault=keeps("self.count"))):
        assert box.add(5) == 6
    assert box.count == 1


def test_an_attribute_that_the_function_changes_is_not_given_back() -> None:
    box = Box()
    with planted(Plant("a fault", _at("Box.add"), fault=given({"self.count": 100}))):
        assert box.add(5) == 105
    assert box.count == 105


def test_a_generator_works_with_other_values() -> None:
    box = Box()
    with planted(Plant("a fault", _at("Box.numbers"), fault=given({"self.count": 9}))):
        assert list(box.numbers()) == [9, 9]
    assert box.count == 1


def test_an_answer_lacks_a_type_or_a_part() -> None:
    with planted(Plant("a fault", _at("mixed"), fault=without(str))):
        assert mixed() == [1]
    with planted(Plant("a fault", _at("parts"), fault=lacking(1))):
        assert parts() == (1, None)


@pytest.mark.parametrize(
    ("about", "count"),
    [((), 1), (("first",), 4), ((str,), 4), ((3,), 1), ((3, "second"), 7)],
)
def test_what_a_function_calls_has_a_fault_in_these_calls(
    about: tuple[object, ...], count: int
) -> None:
    box = Box()
    fault = calling(_at("Box.add"), does_nothing, *about)
    with planted(Plant("a fault", _at("Box.twice"), fault=fault)):
        box.twice(3)
        assert box.count == count
        box.add(1)
    assert box.count == count + 1


@pytest.mark.parametrize(
    ("target", "fault", "text"),
    [
        ("measure", given(size=1), "no parameter size"),
        ("measure", keeps("self.size"), "no parameter self"),
        ("measure", where(_OTHER=1), "does not use _OTHER"),
        ("Box.numbers", keeps("self.count"), "in one call"),
        ("Box.remove", does_nothing, "there is no"),
        ("Box.add", calling(_at("Box.remove"), does_nothing), "there is no"),
    ],
    ids=printed,
)
def test_a_fault_of_what_does_not_exist_is_refused(
    target: str, fault: Fault | Calling, text: str
) -> None:
    with (
        pytest.raises(AssertionError, match=text),
        planted(Plant("a fault", _at(target), fault=fault)),
    ):
        raise NotImplementedError


@pytest.mark.parametrize(
    "fault", [given({"box.length": 1}), given({"box.size": 1}), keeps("box.length")], ids=printed
)
def test_a_fault_of_an_attribute_that_does_not_exist_is_no_finding(fault: Fault) -> None:
    with planted(Plant("a fault", _at("measure"), fault=fault)), pytest.raises(UnfitFault):
        measure(Box())


def test_a_call_with_other_arguments_is_no_finding() -> None:
    plant = Plant("a fault", _at("measure"), fault=given(number=1))
    wrong: Any = getattr(sys.modules[__name__], "measure")  # noqa: B009 - of any type
    with planted(plant), pytest.raises(UnfitFault):
        wrong()
