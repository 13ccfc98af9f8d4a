"""Regular expressions of clients, which RE2 matches."""

import pytest

from coterie.coordinator.patterns import InvalidPattern, Pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("orders", "orders", "orders-1"),
        ("a|ab", "ab", "abc"),
        ("(a|b){2}c*", "bac", "bc"),
        ("a.c", "a\u00e4c", "a\nc"),
        ("(?i)ORDERS-[[:digit:]]+", "orders-12", "orders-"),
        (r"(?P<letters>\pL+)\d", "größe1", "1"),
        (r"\Qa.c\E", "a.c", "abc"),
        (r"\w+", "a_1", "ä"),
        ("", "", "a"),
    ],
)
def test_the_whole_text_has_to_match(pattern: str, matching: str, other: str) -> None:
    """[transactions/patterns]"""
    compiled = Pattern(pattern)
    assert compiled.matches(matching)
    assert not compiled.matches(other)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "[a",
        "[z-a]",
        "*",
        "a**",
        r"\1",
        "(?=a)",
        "\\",
        "a{1001}",
        "a{3,2}",
        "((a{100}){100}){100}",
        "a" * 10_000,
        r"\pL{300}",
    ],
)
def test_what_re2_cannot_read_or_is_too_large_is_invalid(
    pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidPattern):
        Pattern(pattern)
    assert capfd.readouterr() == ("", "")


def test_no_pattern_takes_exponential_time() -> None:
    # It would not end before the end of the universe.
    assert not Pattern("(a|a)*(a*)*(a+)+b").matches("a" * 200)
