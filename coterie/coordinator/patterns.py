"""Regular expressions that clients send: those of RE2 [transactions/patterns].

Kafka uses RE2/J. RE2 matches in a time that is proportional to the text, whatever the pattern is;
Python's own expressions take exponential time for some, and a client would hold the event loop with
one.
"""

from functools import cache
from typing import Any

# The most instructions of a pattern; each may cost time for every character.
_MAX_STATES = 10_000
# What RE2 may use for a pattern: its instructions, and what it remembers of earlier matches. A
# pattern of 10,000 instructions needs about this much.
_MAX_BYTES = 256 * 1024

# The reasons of RE2/J, by the beginnings of those of RE2.
_REASONS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "regexp/syntax: internal error",
    "bad character class range": "invalid character class range",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


class InvalidPattern(ValueError):  # noqa: N818 - it describes the pattern
    """A text is not a regular expression of RE2, or is too large.

    Attributes:
        reason: why, as RE2/J says it.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        found = (each for start, each in _REASONS.items() if text.startswith(start))
        self.reason = next(found, text.partition(": ")[0])


class Pattern:
    """A regular expression.

    Attributes:
        states: how many instructions it has; each may cost time for every character of a text.
    """

    __slots__ = ("_compiled", "states")

    def __init__(self, text: str) -> None:
        """Compile a pattern.

        Raises:
            InvalidPattern: it is none, or has too many instructions.
        """
        self._compiled = _compiled(text)
        self.states: int = self._compiled.programsize

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        return self._compiled.fullmatch(text) is not None


class BytePattern:
    """What is looked for in bytes, wherever it is in them."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str, *, is_literal: bool, ignores_case: bool) -> None:
        """Compile a pattern.

        Args:
            text: the pattern.
            is_literal: whether it is no pattern but the text itself.
            ignores_case: whether the case of letters does not matter.

        Raises:
            InvalidPattern: it is none, or has too many instructions.
        """
        self._compiled = _compiled(text.encode(), is_literal=is_literal, ignores_case=ignores_case)

    def is_in(self, data: bytes) -> bool:
        """Return whether some part of the bytes matches; bytes that are no UTF-8 never do."""
        return self._compiled.search(data) is not None


def _compiled(text: str | bytes, *, is_literal: bool = False, ignores_case: bool = False) -> Any:
    """Return a pattern that RE2 has compiled.

    Raises:
        InvalidPattern: it is none, or has too many instructions.
    """
    re2, options = _library(is_literal=is_literal, ignores_case=ignores_case)
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        said = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise InvalidPattern(said) from None
    finally:
        # The library keeps the last 128 patterns, and here clients choose them.
        re2.purge()
    if compiled.programsize > _MAX_STATES:
        raise InvalidPattern("the pattern is too large")
    return compiled


@cache
def _library(*, is_literal: bool, ignores_case: bool) -> tuple[Any, Any]:
    """Return RE2 and the options of a kind of patterns."""
    # Imported at the first pattern: most brokers never see one.
    import re2

    options = re2.Options()
    options.max_mem = _MAX_BYTES
    # Whether a text matches is all that is asked, and groups that are kept take a multiple of the
    # time.
    options.never_capture = True
    # It would write to standard error what clients do wrong.
    options.log_errors = False
    options.literal = is_literal
    options.case_sensitive = not ignores_case
    return re2, options
