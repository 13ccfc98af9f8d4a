"""What a broker shows of itself when a test has failed: its groups, faults and last requests."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coterie.testing.exchanges import Exchanged

# The end of what clients have sent; a group of three members sends some ten requests a second.
_SHOWN_ROWS = 20
# A tear-down is seldom what a failure is about.
_SHOWN_OF_TEAR_DOWN = 10
# With these a client polls.
_POLLING = frozenset(
    {
        "ConsumerGroupHeartbeat",
        "Fetch",
        "Heartbeat",
        "Metadata",
        "ShareFetch",
        "ShareGroupHeartbeat",
        "StreamsGroupHeartbeat",
    }
)
_TEAR_DOWN = "----- the test has failed; its tear-down follows -----"


class Installed(NamedTuple):
    """A fault that was installed, for people.

    Attributes:
        number: how many faults were installed, with this one.
        received: how many requests were received before.
        text: what goes wrong, for which requests, and how many have met it.
    """

    number: int
    received: int
    text: str


class Left(NamedTuple):
    """A group just before the first of its members left.

    Attributes:
        at_ms: when that was, in epoch milliseconds.
        received: how many requests were received before.
        text: the group with its members.
    """

    at_ms: int
    received: int
    text: str


class Report(NamedTuple):
    """A broker at a moment.

    Attributes:
        at_ms: the moment by the broker's clock, in epoch milliseconds.
        received: how many requests were received until then.
        groups: every group with its members and its rebalances, as text.
        faults: the newest faults, also those that are over.
        requests: the newest requests with what became of them.
        left: the groups that members have left since the last one joined.
    """

    at_ms: int
    received: int
    groups: str
    faults: tuple[Installed, ...]
    requests: tuple[Exchanged, ...]
    left: tuple[Left, ...]

    @property
    def moment(self) -> "Moment":
        """When this was."""
        return Moment(self.at_ms, self.received)


class Moment(NamedTuple):
    """A moment of a test.

    Attributes:
        at_ms: by the broker's clock, in epoch milliseconds.
        received: how many requests were received until then.
    """

    at_ms: int
    received: int


class Row(NamedTuple):
    """A line of a report.

    Attributes:
        first: the request, or the first of those that the line is about.
        times, last_ms: how many these are, and when the last one arrived.
    """

    first: Exchanged
    times: int
    last_ms: int


def group_text(report: Report, began: Moment) -> str:
    """Return the groups after a test of which nothing says when it failed.

    If members have left since the last one joined, that may be the tear-down of the test, so the
    groups before are shown, too.
    """
    parts = [report.groups]
    for left in report.left:
        if left.received >= began.received:
            at_s = (left.at_ms - began.at_ms) / 1000
            parts.append(f"before members left at {at_s:+.3f} s, perhaps of the tear-down:")
            parts.append(textwrap.indent(left.text, "  "))
    return "\n".join(parts)


def request_lines(report: Report, began: Moment, failed: Moment | None) -> list[str]:
    """Return a line for each of the last requests of a test, and for each fault.

    Args:
        report: the broker now.
        began: when the test began; earlier requests are those of other tests.
        failed: when it failed, if that was noted; a line divides what follows from what was before.
    """
    of_test = [each for each in report.requests if each.number >= began.received]
    end = report.received if failed is None else failed.received
    before = _rows(each for each in of_test if each.number < end)[-_SHOWN_ROWS:]
    after = _rows(each for each in of_test if each.number >= end)[:_SHOWN_OF_TEAR_DOWN]
    lines = _table([*before, *after], began.at_ms) or ["no requests"]
    if after:
        lines.insert(len(before), _TEAR_DOWN)
    met = {each.fault for each in of_test}
    for fault in report.faults:
        if fault.received >= began.received or fault.number in met:
            lines.append(f"fault {fault.number}: {fault.text}")
    return lines


def _rows(requests: Iterable[Exchanged]) -> list[Row]:
    """Return a row for each request, and one for those with which a client polls again and again.

    Only requests without an error are joined, and none across another request.
    """
    rows: list[Row] = []
    polled: dict[tuple[str, ...], int] = {}
    for each in requests:
        api = each.request.partition(" ")[0]
        if api not in _POLLING or each.outcome != "ok" or each.fault is not None:
            polled.clear()
            rows.append(Row(each, 1, each.at_ms))
            continue
        key = (str(each.node_id), each.client_id, each.request, each.subject)
        at = polled.setdefault(key, len(rows))
        if at == len(rows):
            rows.append(Row(each, 1, each.at_ms))
        else:
            rows[at] = rows[at]._replace(times=rows[at].times + 1, last_ms=each.at_ms)
    return rows


def _table(rows: Sequence[Row], began_ms: int) -> list[str]:
    if not rows:
        return []
    cells = []
    for first, times, last_ms in rows:
        outcome = f"-> {first.outcome}"
        if first.fault is not None:
            outcome += f"  (fault {first.fault})"
        if times > 1:
            outcome += f"  ({times} times until {(last_ms - began_ms) / 1000:+.3f} s)"
        at = f"{(first.at_ms - began_ms) / 1000:+.3f} s"
        where = () if first.node_id is None else (f"broker {first.node_id}",)
        cells.append((at, *where, first.client_id, first.request, first.subject, outcome))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    return [
        "  ".join(
            [
                row[0].rjust(widths[0]),
                *(cell.ljust(width) for cell, width in zip(row[1:-1], widths[1:], strict=True)),
                row[-1],
            ]
        )
        for row in cells
    ]
