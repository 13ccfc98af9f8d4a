"""Which topic names are legal (Kafka's rules and its words)."""

import re

from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC

MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC})
# What only the broker itself writes. The journal is not internal: what reads it (Spark's Kafka
# connector, for one) passes internal topics over.
OWN_TOPICS = INTERNAL_TOPICS | {JOURNAL_TOPIC}


def invalid_name(name: str) -> str | None:
    """Why a topic can't have this name; None when it can."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics,"
            " '.', '_' and '-'"
        )
    else:
        return None
    return f"Topic name is invalid: {reason}"


def collision_key(name: str) -> str:
    """Names with the same key collide: metrics turn periods into underscores."""
    return name.replace(".", "_")
