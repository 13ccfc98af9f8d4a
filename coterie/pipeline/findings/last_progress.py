"""When the partitions of a group last made progress, from the commits [pipeline/stalls].

The log ends that show a stall are requested now and then, sometimes hours after it began. The
commits have its beginning.
"""

from bisect import bisect_right
from collections.abc import Collection

import pyarrow.compute as pc

from coterie.pipeline.findings.group import Group, rows_of

# As in `group`, a topic and a partition number.
Place = tuple[str, int]
_MINUTE_MS = 60_000


class LastProgress:
    """The times at which some partitions of a group made progress, or had no lag."""

    def __init__(self, group: Group, places: Collection[Place]) -> None:
        """Collect the times.

        Args:
            group: the group.
            places: the partitions.
        """
        self._times: dict[Place, list[int]] = {place: [] for place in places}
        columns = ["topic", "partition", "window_start_ts", "advance", "last_ts"]
        minutes = group.rows.minutes.sort_by("window_start_ts")
        for row in rows_of(minutes, columns):
            times = self._times.get((row["topic"], row["partition"]))
            # The first commit of a partition is no advance, but progress.
            if times is not None and (row["advance"] or not times):
                times.append(row["window_start_ts"] if row["last_ts"] is None else row["last_ts"])
        lags = group.rows.lag_1m
        level = lags.filter(pc.fill_null(pc.equal(lags.column("lag"), 0), fill_value=False))
        for row in rows_of(level, ["topic", "partition", "window_start_ts"]):
            times = self._times.get((row["topic"], row["partition"]))
            if times is not None:
                times.append(row["window_start_ts"])
        for times in self._times.values():
            times.sort()

    def before(self, place: Place, minute_ms: int) -> int | None:
        """Return the last progress of a partition up to the end of a minute; None if unknown."""
        times = self._times[place]
        count = bisect_right(times, minute_ms + _MINUTE_MS - 1)
        return times[count - 1] if count else None
