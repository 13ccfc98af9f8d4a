"""Places in JSON: what they find, what is no path, and what is equal."""

from typing import Any

import pytest

from coterie.console.records.json_path import BadPath, JsonPath, Wanted

DOCUMENT = {
    "customer": {"id": 42, "unit price": 1.5, "odd.name": "x"},
    "items": [{"sku": "a", "n": None}, {"sku": "b"}, "c"],
    "*": True,
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("customer.id", [42]),
        ("$.customer.id", [42]),
        (".customer.id", [42]),
        ("$['customer']['unit price']", [1.5]),
        ('customer["odd.name"]', ["x"]),
        ("items[0].sku", ["a"]),
        ("items[*].sku", ["a", "b"]),
        ("items[2]", ["c"]),
        ("items[9]", []),
        ("items.sku", []),
        ("customer[0]", []),
        ("customer.*", [42, 1.5, "x"]),
        ("items[0].n", [None]),
        ("['*']", [True]),
        ("absent", []),
    ],
)
def test_values_at_a_place(path: str, found: list[Any]) -> None:
    assert list(JsonPath.of(path).values(DOCUMENT)) == found


@pytest.mark.parametrize(
    "text", ["", "$", "a[", "a[-1]", "a[x]", "a..b", "a b", "a['b]", "x" + ".a" * 40]
)
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(BadPath):
        JsonPath.of(text)


def test_only_names_that_json_writes_in_one_way_are_looked_for_in_bytes() -> None:
    assert JsonPath.of("a-1.käse['b c'][0].d_2[*]").plain_names == [b"a-1", b"d_2"]


@pytest.mark.parametrize(
    ("text", "value", "is_equal"),
    [
        ("42", 42, True),
        ("42", 42.0, True),
        ("42", "42", True),
        ("42", 43, False),
        ('"42"', "42", True),
        ('"42"', 42, False),
        ("true", True, True),
        ("true", 1, False),
        ("1", True, False),
        ("null", None, True),
        ("null", "null", True),
        ("0", None, False),
        ("0", False, False),
        ("tea", "tea", True),
        ("[1]", [1], False),
        ("NaN", "NaN", True),
    ],
)
def test_what_is_equal(text: str, value: Any, is_equal: bool) -> None:
    assert Wanted(text).is_equal(value) is is_equal
