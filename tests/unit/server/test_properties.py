"""Java properties files."""

import pytest

from coterie.server.config.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", []),
        ("# one\n! two\n   # three\n\n", []),
        ("a=b", [(1, "a", "b")]),
        ("  a = b c ", [(1, "a", "b c ")]),
        ("a:b\nc d\ne", [(1, "a", "b"), (2, "c", "d"), (3, "e", "")]),
        ("a=b=c:d", [(1, "a", "b=c:d")]),
        ("a=1,\\\n   2,\\\n   3\nb=4", [(1, "a", "1,2,3"), (4, "b", "4")]),
        ("a\\=b=c", [(1, "a=b", "c")]),
        ("a=C:\\\\dir\\ttab\\u0041", [(1, "a", "C:\\dir\ttabA")]),
        ("a=b\\", [(1, "a", "b")]),
        ("a=b\\\\\nc=d", [(1, "a", "b\\"), (2, "c", "d")]),
        ("größe=1", [(1, "größe", "1")]),
    ],
)
def test_parse(text: str, entries: list[tuple[int, str, str]]) -> None:
    assert parse_properties(text) == entries


def test_an_escape_that_is_cut_off() -> None:
    with pytest.raises(ValueError, match="line 2"):
        parse_properties("a=b\nc=\\u12")
