"""Texts of peers in log lines: escaped, and not longer than somebody reads."""

# Enough for each name that a person gives.
MOST_CHARACTERS = 200


def shown(text: str) -> str:
    """Return a text of a peer as it may stand in a log line."""
    escaped = text.encode("unicode_escape").decode("ascii")
    return escaped if len(escaped) <= MOST_CHARACTERS else f"{escaped[:MOST_CHARACTERS]}..."
