"""Java's properties files [settings/properties-format]: what java.util.Properties of Java 17 reads
and writes.

A million random texts were read by both; these are the kinds that differed on the way there.
"""

import pytest

from coterie.storage.properties import (
    PropertiesError,
    parse_properties,
    properties_text,
    read_properties,
)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", []),
        ("# one\n! two\n   # three\n\n", []),
        ("a=b", [(1, "a", "b")]),
        ("  a = b c ", [(1, "a", "b c ")]),
        ("a:b\nc d\ne", [(1, "a", "b"), (2, "c", "d"), (3, "e", "")]),
        ("a=b=c:d", [(1, "a", "b=c:d")]),
        ("a= :b\nc : =d", [(1, "a", ":b"), (2, "c", "=d")]),
        ("a\fb\n\fc=\fd", [(1, "a", "b"), (2, "c", "d")]),
        ("=b\n:", [(1, "", "b"), (2, "", "")]),
        ("a=1,\\\n   2,\\\n   3\nb=4", [(1, "a", "1,2,3"), (4, "b", "4")]),
        ("a=1\\\n# 2\nb=3", [(1, "a", "1# 2"), (3, "b", "3")]),
        ("# 1\\\na=2", [(2, "a", "2")]),
        ("a=1\\\n\nb=2", [(1, "a", "1"), (3, "b", "2")]),
        ("\\\n#a\nb=1", [(3, "b", "1")]),
        ("a\\=b=c", [(1, "a=b", "c")]),
        ("a\\ b\\:c d", [(1, "a b:c", "d")]),
        ("a=C:\\\\dir\\ttab\\u0041\\q", [(1, "a", "C:\\dir\ttabAq")]),
        ("a=\\uD83D\\uDE00\\u00e9", [(1, "a", "😀é")]),
        ("a=\\uD83D", [(1, "a", "\ud83d")]),
        ("a=b\\", [(1, "a", "b")]),
        ("a=b\\\\\nc=d", [(1, "a", "b\\"), (2, "c", "d")]),
        ("a=b\\\\\\\nc=d", [(1, "a", "b\\c=d")]),
        ("a=1\rb=2\r\nc=3\\\r\n 4", [(1, "a", "1"), (2, "b", "2"), (3, "c", "34")]),
        ("a=1\x0b2\x1c3\u20284\x855", [(1, "a", "1\x0b2\x1c3\u20284\x855")]),
        ("größe=1", [(1, "größe", "1")]),
        ("a=1\na=2", [(1, "a", "1"), (2, "a", "2")]),
        ("\\", [(1, "", "")]),
        ("\\\n", [(1, "", "")]),
        ("\\\r\n", []),
        ("\\\n ", []),
    ],
)
def test_entries_are_those_that_java_reads(text: str, entries: list[tuple[int, str, str]]) -> None:
    assert parse_properties(text) == entries


def test_the_last_of_equal_names_counts() -> None:
    assert read_properties("#\n#Sat Nov 21 09:55:50 UTC 2026\na=1\nb=2\na=3\n") == {
        "a": "3",
        "b": "2",
    }


@pytest.mark.parametrize("escape", ["\\u12", "\\u", "\\u00g0", "\\u 123", "\\u+123", "\\u1_23"])
def test_a_malformed_escape_is_an_error_with_its_line(escape: str) -> None:
    with pytest.raises(PropertiesError, match="line 2: "):
        parse_properties(f"a=b\nc={escape}\n")


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({}, ""),
        ({"node.id": "1"}, "node.id=1\n"),
        ({"a b": " c d "}, "a\\ b=\\ c d \n"),
        ({"a=b:c#d!": "e=f:g#h!"}, "a\\=b\\:c\\#d\\!=e\\=f\\:g\\#h\\!\n"),
        ({"path": "C:\\dir\t\n\r\f"}, "path=C\\:\\\\dir\\t\\n\\r\\f\n"),
        ({"é": "😀\x7f\x00"}, "\\u00E9=\\uD83D\\uDE00\\u007F\\u0000\n"),
    ],
)
def test_text_is_what_java_writes(properties: dict[str, str], text: str) -> None:
    assert properties_text(properties) == text
    assert read_properties(text) == properties
