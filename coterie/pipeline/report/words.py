"""Numbers and durations as the page writes them; names are written by `coterie.client.names`."""

from coterie.client.names import printable

UNKNOWN = "unknown"
# A full name in a tip is cut here: a client may choose one of 32 KB.
HINT_LETTERS = 500
_SECOND_MS = 1_000


def hint(text: str) -> str:
    """Return as much of a name as a tip shows."""
    return printable(text)[:HINT_LETTERS]


def duration(ms: float | None) -> str:
    """Return a duration in words: 340 ms, 12.4 s, 3 min 05 s, 2 h 10 min."""
    if ms is None:
        return UNKNOWN
    if ms < _SECOND_MS:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
