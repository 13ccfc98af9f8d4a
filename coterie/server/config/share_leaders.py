"""The settings of one share group, for the leaders of partitions."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from coterie.server.config.group_bounds import Settings, bounded

LATEST, EARLIEST, BY_DURATION = "latest", "earliest", "by_duration"
# Days, hours, minutes and seconds of a duration of ISO 8601, as Java's Duration reads them: each
# may have a sign.
_DURATION = re.compile(
    r"([+-]?)P(?=.)(?:([+-]?[0-9]+)D)?"
    r"(?:T(?=.)(?:([+-]?[0-9]+)H)?(?:([+-]?[0-9]+)M)?(?:([+-]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
# Java keeps the seconds in 64 bits.
_LARGEST_S = 2**63 - 1

# What has bounds.
_BOUNDED = ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")


class ShareSettings(NamedTuple):
    """Settings of a share group.

    Attributes:
        delivery_limit: how often a record is delivered at most.
        max_in_flight: how many records of a partition may be in flight.
        lock_ms: how long an acquired record is locked.
        is_committed: whether only records of committed transactions are read.
        may_renew: whether locks may be renewed.
        reset: where a partition begins: LATEST, EARLIEST or BY_DURATION.
        reset_ms: how far back BY_DURATION reaches.
    """

    delivery_limit: int
    max_in_flight: int
    lock_ms: int
    is_committed: bool
    may_renew: bool
    reset: str
    reset_ms: int = 0


def leader_settings(broker: Settings, own: Mapping[str, str]) -> ShareSettings:
    """Return the settings of a group; what is beyond the present bounds is cut.

    Args:
        broker: the settings of the broker.
        own: those of the group.
    """
    delivery_limit, max_in_flight, lock_ms = bounded(broker, "share", _BOUNDED, own)
    try:
        # Settings that were kept by an earlier version may have other cases, or be none.
        reset, reset_ms = offset_reset(own.get("share.auto.offset.reset", LATEST).lower())
    except ValueError:
        reset, reset_ms = LATEST, 0
    return ShareSettings(
        delivery_limit,
        max_in_flight,
        lock_ms,
        own.get("share.isolation.level", "").lower() == "read_committed",
        own.get("share.renew.acknowledge.enable", "true").lower() != "false",
        reset,
        reset_ms,
    )


def offset_reset(text: str) -> tuple[str, int]:
    """Return where `share.auto.offset.reset` lets a partition begin, and BY_DURATION's duration.

    The duration is in milliseconds, and 0 for the others [share-partitions/offset-reset].

    Raises:
        ValueError: the text is no such place, or its duration is negative.
    """
    if text in (LATEST, EARLIEST):
        return text, 0
    word, _, duration = text.partition(":")
    back_ms = _duration_ms(duration)
    if word != BY_DURATION or back_ms < 0:
        raise ValueError(text)
    return word, back_ms


def _duration_ms(text: str) -> int:
    """Return a duration such as PT1H30M.

    Raises:
        ValueError: it is none, or too long.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(text)
    sign, *numbers, fraction = found.groups()
    days, hours, minutes, seconds = (int(each or 0) for each in numbers)
    whole_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if abs(whole_s) > _LARGEST_S:
        raise ValueError(text)
    fraction_ms = int((fraction or "").ljust(3, "0")[:3])
    if (numbers[-1] or "").startswith("-"):
        fraction_ms = -fraction_ms
    total_ms = whole_s * 1000 + fraction_ms
    return -total_ms if sign == "-" else total_ms
