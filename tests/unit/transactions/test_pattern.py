"""Regular expressions in linear time."""

import re

import pytest

from coterie.coordinator.transactions.pattern import InvalidPattern, Pattern

PATTERNS = [
    "",
    "a",
    "abc",
    "a*",
    "a+b",
    "a?b?",
    "a|b|cd",
    "(a|b)*c",
    "(?:ab){2}",
    "a{2,3}",
    "a{2,}",
    "a{0}",
    "[a-c]+",
    "[^a-c]+",
    "[]a]+",
    "[a-]+",
    r"\d+",
    r"\w+-\w*",
    r"\S\s\S",
    ".*",
    "a.c",
    r"a\.c",
    "^a$",
    "a$b",
    "(a*)*b",
    "((a|b)(c|d))+",
    "q.*",
    "x{,3}",
    "a{1}",
    "(|a)b",
    "[0-9a-f]{4}",
    r"[\d-]+",
]
TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "abc",
    "aaa",
    "aab",
    "cd",
    "abab",
    "ac",
    "bd",
    "acbd",
    "q1",
    "a.c",
    "axc",
    "]",
    "-",
    "12",
    "a-",
    "a b",
    "x{,3}",
    "00ff",
    "aaaa",
    "1-2",
    "\n",
    "a\nc",
    "c",
    "ababc",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_matches_as_python_does(pattern: str) -> None:
    """[transactions/patterns]"""
    # Python's `{,3}` is a repetition; RE2's is a text.
    expected = re.compile(pattern.replace("{,", r"\{,"), re.ASCII)
    compiled = Pattern(pattern)
    for text in TEXTS:
        found = expected.fullmatch(text)
        assert compiled.matches(text) is (found is not None), text


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "(a",
        "[a",
        "[z-a]",
        "*",
        "+a",
        "a**",
        r"\1",
        r"(?=a)",
        "(?i)a",
        "(?P<n>a)",
        "\\",
        "a{1001}",
        "a{3,2}",
        "(" * 200 + ")" * 200,
        "[[:alpha:]]",
        r"\pL",
        "((a{100}){100}){100}",
    ],
)
def test_other_patterns_are_invalid(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        Pattern(pattern)


def test_no_pattern_takes_exponential_time() -> None:
    # It would not end before the end of the universe.
    assert not Pattern("(a|a)*(a*)*(a+)+b").matches("a" * 200)
