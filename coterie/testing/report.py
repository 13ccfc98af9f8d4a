"""What a broker shows of itself when a test has failed: its groups, faults and last requests."""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.testing.exchanges import Exchanged

# The end of what clients have sent; a group of three members sends some ten requests a second.
_SHOWN_REQUESTS = 20
# A tear-down is seldom what a failure is about.
_SHOWN_OF_TEAR_DOWN = 10
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


class Report(NamedTuple):
    """A broker at a moment.

    Attributes:
        at_ms: the moment by the broker's clock, in epoch milliseconds.
        received: how many requests were received until then.
        groups: every group with its members and its rebalances, as text.
        faults: the newest faults, also those that are over.
        requests: the newest requests with what became of them.
    """

    at_ms: int
    received: int
    groups: str
    faults: tuple[Installed, ...]
    requests: tuple[Exchanged, ...]

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


def request_lines(report: Report, began: Moment, failed: Moment | None) -> list[str]:
    """Return a line for each of the last requests of a test, and for each fault.

    Args:
        report: the broker now.
        began: when the test began; earlier requests are those of other tests.
        failed: when it failed, if that was noted; a line divides what follows from what was before.
    """
    of_test = [each for each in report.requests if each.number >= began.received]
    end = report.received if failed is None else failed.received
    before = [each for each in of_test if each.number < end][-_SHOWN_REQUESTS:]
    after = [each for each in of_test if each.number >= end][:_SHOWN_OF_TEAR_DOWN]
    lines = _table([*before, *after], began.at_ms) or ["no requests"]
    if after:
        lines.insert(len(before), _TEAR_DOWN)
    met = {each.fault for each in of_test}
    for fault in report.faults:
        if fault.received >= began.received or fault.number in met:
            lines.append(f"fault {fault.number}: {fault.text}")
    return lines


def _table(requests: Sequence[Exchanged], began_ms: int) -> list[str]:
    rows = [
        (
            f"{(each.at_ms - began_ms) / 1000:+.3f} s",
            each.client_id,
            each.request,
            each.subject,
            f"-> {each.outcome}{f'  (fault {each.fault})' if each.fault else ''}",
        )
        for each in requests
    ]
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return [
        "  ".join(
            [
                row[0].rjust(widths[0]),
                *(cell.ljust(width) for cell, width in zip(row[1:-1], widths[1:], strict=True)),
                row[-1],
            ]
        )
        for row in rows
    ]
