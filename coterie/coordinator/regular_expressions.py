r"""Regular expressions that clients send: those of RE2, which match in linear time.

Kafka uses RE2/J [consumer-groups/regex]. Python's own expressions may take exponential time for a
pattern that a client has chosen.
"""

from functools import lru_cache
from typing import Any

# Patterns that are kept compiled: one takes some 40 microseconds to compile and some kilobytes.
_KEPT_PATTERNS = 256

# The texts of RE2/J, by the beginnings of those of RE2.
_REASONS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "regexp/syntax: internal error",
    "bad character class range": "invalid character class range",
    "invalid character class range": "invalid character class range",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "duplicate capture group name": "duplicate capture group name",
    "invalid escape sequence": "invalid escape sequence",
    "trailing \\": "trailing backslash at end of expression",
}


class InvalidPattern(ValueError):  # noqa: N818 - it describes the pattern
    """A text is not a regular expression. The message is the reason, in the words of RE2/J."""


class Pattern:
    """A regular expression that matches whole texts."""

    __slots__ = ("_compiled",)

    def __init__(self, compiled_pattern: Any) -> None:
        self._compiled = compiled_pattern

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        return self._compiled.fullmatch(text) is not None


@lru_cache(maxsize=_KEPT_PATTERNS)
def compiled(text: str) -> Pattern:
    """Return a regular expression.

    Raises:
        InvalidPattern: the text is none.
    """
    # Imported at the first use: most brokers never see a regular expression.
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return Pattern(re2.compile(text, options))
    except re2.error as error:
        raise InvalidPattern(_reason(error)) from None


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    for beginning, reason in _REASONS.items():
        if text.startswith(beginning):
            return reason
    return text
