"""Numbers over time, in bounded memory: the lag of a group, and the end of a partition.

A number lasts until the next one, so that what does not change takes no memory and is sent to no
page again.
"""

from array import array

# The time that a page shows.
WINDOW_MS = 15 * 60 * 1000
# A line of 200 pixels needs no more points than this.
STEP_MS = 15 * 1000
_MOST_ENDS = 32


class Steps:
    """A number over the last 15 minutes, at most one each 15 seconds."""

    def __init__(self) -> None:
        self._points: list[tuple[int, int]] = []

    def add(self, at_ms: int, value: int) -> None:
        """Add the number at a time that is not before the last one."""
        points = self._points
        if not points:
            points.append((at_ms, value))
            return
        last_ms, last = points[-1]
        if value != last and at_ms - last_ms >= STEP_MS:
            points.append((at_ms, value))
        # The number at the beginning of the window is that of the last point before it.
        begin = at_ms - WINDOW_MS
        while len(points) > 1 and points[1][0] <= begin:
            del points[0]

    @property
    def points(self) -> list[list[int]]:
        """The points, as JSON has them: when it became this number, and the number."""
        return [list(each) for each in self._points]


class Ends:
    """The end of a partition over time, from which the age of an offset follows.

    It has at most `_MOST_ENDS` points; older ones are further apart.
    """

    def __init__(self) -> None:
        self._at_ms = array("q")
        self._ends = array("q")

    def add(self, at_ms: int, end: int) -> None:
        """Add the end at a time that is not before the last one."""
        if self._ends and end < self._ends[-1]:
            # The topic was deleted and created again.
            del self._ends[:], self._at_ms[:]
        if len(self._ends) > 1 and end == self._ends[-1] == self._ends[-2]:
            # Until now there was no newer record.
            self._at_ms[-1] = at_ms
            return
        self._at_ms.append(at_ms)
        self._ends.append(end)
        if len(self._ends) > _MOST_ENDS:
            # Each second point of the older half.
            del self._ends[1 : _MOST_ENDS // 2 : 2], self._at_ms[1 : _MOST_ENDS // 2 : 2]

    @property
    def count(self) -> int:
        """The number of points."""
        return len(self._ends)

    def age_ms(self, offset: int, now_ms: int) -> int | None:
        """Return how long ago the partition had its end at an offset; None if that was before.

        Between two points the records are taken to have come evenly. It is the age of the oldest
        record that a group has not read, which has committed the offset [console/time-lag].
        """
        at_ms, ends = self._at_ms, self._ends
        if not ends or offset < ends[0]:
            return None
        if offset >= ends[-1]:
            return 0
        for index in range(len(ends) - 2, -1, -1):
            if ends[index] <= offset:
                part = (offset - ends[index]) / (ends[index + 1] - ends[index])
                reached = at_ms[index] + part * (at_ms[index + 1] - at_ms[index])
                return max(0, round(now_ms - reached))
        return None
