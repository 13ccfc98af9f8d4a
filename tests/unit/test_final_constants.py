"""Constants are marked as final in the compiled form, and nothing else is."""

import pytest

from compilation.constants import with_final_constants

IMPORT = "from typing import Final\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("LIMIT = 5\n", "LIMIT: Final = 5\n"),
        ("_read = f()\n", "_read: Final = f()\n"),
        ("CODES: dict[str, int] = {}\n", "CODES: Final[dict[str, int]] = {}\n"),
        ('"""Text."""\nLIMIT = 5\n', '"""Text."""\nLIMIT: Final = 5\n'),
        ("LIMIT = (\n    5\n)\n", "LIMIT: Final = (\n    5\n)\n"),
        ("class E:\n    ON = 1\nON = E.ON\n", "class E:\n    ON = 1\nON: Final = E.ON\n"),
    ],
)
def test_constant_is_final(source: str, expected: str) -> None:
    text, marked = "", expected
    if expected.startswith('"'):
        text, _, marked = expected.partition("\n")
        text += "\n"
    assert with_final_constants(source) == text + IMPORT + marked


@pytest.mark.parametrize(
    "source",
    [
        "Pair = tuple[bytes, bytes]\n",
        "T = TypeVar('T')\n",
        "counter = 0\ncounter = 1\n",
        "cache = None\ndef f():\n    global cache\n    cache = 1\n",
        "a = b = 1\n",
    ],
)
def test_other_names_are_not_final(source: str) -> None:
    assert with_final_constants(source) == source
