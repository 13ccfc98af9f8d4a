"""Durations as people write them on the command line: 30m, 2h, 7d."""

import re

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# Nine digits of days are more than the time since the epoch, and less than 64 bits of milliseconds.
_SHORT_DURATION = re.compile(r"(\d{1,9})([smhd])", re.ASCII)


def short_duration_ms(text: str) -> int | None:
    """Return milliseconds of a number with its unit; None if the text has another form."""
    short = _SHORT_DURATION.fullmatch(text.strip())
    return None if short is None else int(short[1]) * _UNITS_MS[short[2]]
