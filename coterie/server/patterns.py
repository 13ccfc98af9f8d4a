"""Regular expressions that clients send: those of RE2, as in Kafka [transactions/patterns].

RE2 matches in a time that is proportional to the text, whatever the pattern is; Python's own
expressions take exponential time for some, and a client would hold the event loop with one.
"""

import re2

# The most instructions of a pattern; each may cost time for every character.
_MAX_STATES = 10_000
# What RE2 may use for a pattern: its instructions, and what it remembers of earlier matches. A
# pattern of 10,000 instructions needs about this much.
_MAX_BYTES = 256 * 1024

_OPTIONS = re2.Options()
_OPTIONS.max_mem = _MAX_BYTES
# Whether a text matches is all that is asked, and groups that are kept take a multiple of the time.
_OPTIONS.never_capture = True
# It would write to standard error what clients do wrong.
_OPTIONS.log_errors = False


class InvalidPattern(ValueError):  # noqa: N818 - it describes the pattern
    """A text is not a regular expression of RE2, or is too large."""


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
        try:
            self._compiled = re2.compile(text, _OPTIONS)
        except re2.error as error:
            raise InvalidPattern(str(error)) from None
        finally:
            # The library keeps the last 128 patterns, and here clients choose them.
            re2.purge()
        self.states: int = self._compiled.programsize
        if self.states > _MAX_STATES:
            raise InvalidPattern("the pattern is too large")

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        return self._compiled.fullmatch(text) is not None
