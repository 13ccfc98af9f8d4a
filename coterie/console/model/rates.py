"""What is written to topics, and requested of brokers, in a second: from numbers that exist anyway.

Offsets and sizes of topics are those that the page of topics shows. Nobody counts requests; clients
number them on each connection, and the differences are added up [console/rates].
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from coterie.client.topic_rows import Row

K = TypeVar("K")

# A rate is that of the last ten seconds, or of the time between two looks that are further apart.
_RATE_S = 10.0
# Looks of several pages may be near each other; a rate of less time says little.
_LEAST_S = 2.0
# A topic that nobody has looked at for so long is looked at anew.
_OLD_S = 60.0
# A connection whose number jumps further in one look does not count its requests.
_MOST_REQUESTS = 1_000_000


class Written(NamedTuple):
    """What was written to a topic in a second; None while it is not known.

    Attributes:
        records_per_s: offsets, the markers of transactions among them.
        bytes_per_s: bytes of its logs; None if some were deleted meanwhile.
    """

    records_per_s: float | None
    bytes_per_s: float | None


class _Look(NamedTuple):
    """A topic at one time: sums over its partitions; None if one is not known."""

    at_s: float
    partition_count: int
    starts: int | None
    ends: int | None
    size_bytes: int | None


class TopicRates:
    """What is written to each topic; threads share it."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._lock = threading.Lock()
        self._looks: dict[str, deque[_Look]] = {}

    def add(self, at_s: float, topics: Mapping[str, Iterable[Row]]) -> dict[str, Written]:
        """Add a look at topics, and return what was written to them before it.

        Args:
            at_s: when it was, by the monotonic clock.
            topics: the rows of the partitions of each.
        """
        with self._lock:
            for name in [each for each, looks in self._looks.items() if _is_old(looks, at_s)]:
                del self._looks[name]
            return {name: self._add(name, _look(at_s, rows)) for name, rows in topics.items()}

    def _add(self, name: str, now: _Look) -> Written:
        looks = self._looks.setdefault(name, deque())
        while len(looks) > 1 and looks[1].at_s <= now.at_s - _RATE_S:
            looks.popleft()
        before = looks[0] if looks else None
        if not looks or now.at_s - looks[-1].at_s >= _LEAST_S:
            looks.append(now)
        if before is None or now.at_s - before.at_s < _LEAST_S:
            return Written(None, None)
        found = _written(before, now)
        if found is None:
            # The topic is another one than before.
            looks.clear()
            looks.append(now)
            return Written(None, None)
        return found


def _is_old(looks: deque[_Look], at_s: float) -> bool:
    return looks[-1].at_s < at_s - _OLD_S


def _look(at_s: float, rows: Iterable[Row]) -> _Look:
    every = list(rows)

    def total(key: str) -> int | None:
        numbers = [each[key] for each in every]
        return None if None in numbers else sum(numbers)

    return _Look(at_s, len(every), total("start_offset"), total("end_offset"), total("size_bytes"))


def _written(before: _Look, now: _Look) -> Written | None:
    """Return what was written between two looks; None if the topic was made anew."""
    if before.partition_count != now.partition_count:
        return None
    seconds = now.at_s - before.at_s
    records = _difference(before.ends, now.ends)
    if records is not None and records < 0:
        return None
    size = _difference(before.size_bytes, now.size_bytes)
    # Retention moves the start, and compaction makes logs smaller.
    is_whole = before.starts == now.starts and size is not None and size >= 0
    return Written(
        None if records is None else round(records / seconds, 1),
        round(size / seconds, 1) if is_whole and size is not None else None,
    )


def _difference(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else now - before


def requests_between(before: Mapping[K, int], now: Mapping[K, int]) -> int:
    """Return how many requests were made on the connections that were open both times.

    Args:
        before, now: by connection the number that the client gave its last request.
    """
    made = (number - before[each] for each, number in now.items() if each in before)
    return sum(count for count in made if 0 < count <= _MOST_REQUESTS)
