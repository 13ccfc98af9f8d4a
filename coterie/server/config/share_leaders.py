"""The settings of one share group, for the leaders of partitions."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from coterie.server.config.group_bounds import Settings, bounded

LATEST, EARLIEST, BY_DURATION = "latest", "earliest", "by_duration"
# Days, hours, minutes and seconds of a duration of ISO 8601, as Java's Duration reads them.
_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)

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
    reset = own.get("share.auto.offset.reset", LATEST).lower()
    reset_ms = 0
    if reset.startswith(BY_DURATION):
        reset, _, duration = reset.partition(":")
        reset_ms = duration_ms(duration)
    return ShareSettings(
        delivery_limit,
        max_in_flight,
        lock_ms,
        own.get("share.isolation.level", "").lower() == "read_committed",
        own.get("share.renew.acknowledge.enable", "true").lower() != "false",
        reset,
        reset_ms,
    )


def duration_ms(text: str) -> int:
    """Return a duration such as PT1H30M; 0 for what is none."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return 0
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[:4])
    fraction_ms = int((found.group(5) or "").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction_ms
