"""A finding, and words for its sentences."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from coterie.client.cluster import TopicPartition
from coterie.client.names import printable

# The names that a sentence lists; a group may have thousands of members.
_MOST_NAMES = 5


class Severity(StrEnum):
    """How bad a finding is; the most severe comes first."""

    ERROR = "error"
    """Records are not read or were lost, or the group does not work."""
    WARNING = "warning"
    """The group works, but not as intended or not for long."""


class Finding(NamedTuple):
    """What a check found.

    Attributes:
        severity: how bad it is.
        subject: the partitions, members or topics concerned; "" for the group as a whole.
        cause: what was seen and what follows from it, in sentences.
        remedy: what to do about it.
    """

    severity: Severity
    subject: str
    cause: str
    remedy: str


def error(subject: str, cause: str, remedy: str) -> Finding:
    """Return a finding of severity "error"."""
    return Finding(Severity.ERROR, subject, cause, remedy)


def warning(subject: str, cause: str, remedy: str) -> Finding:
    """Return a finding of severity "warning"."""
    return Finding(Severity.WARNING, subject, cause, remedy)


def names_text(names: Iterable[str]) -> str:
    """Return the first names of some, and how many there are besides."""
    known = list(dict.fromkeys(names))
    more = len(known) - _MOST_NAMES
    text = ", ".join(map(printable, known[:_MOST_NAMES]))
    return f"{text} and {more} more" if more > 0 else text


def partitions_text(partitions: Sequence[TopicPartition]) -> str:
    """Return partitions as topic-number."""
    return names_text(f"{topic}-{index}" for topic, index in sorted(partitions))
