"""A broker as the report of a failed test shows it, with pytest and with unittest.

A test that fails often stops its clients before the failure is reported, in a `with` or `finally`.
So the broker is looked at when an error of `coterie.testing` is raised.
"""

from collections.abc import Iterable
from types import CodeType, TracebackType
from typing import NamedTuple

from coterie.testing.callers import end_at_caller
from coterie.testing.errors import EXPLAINED, BrokerNotStarted, WrongUse
from coterie.testing.report import Report, group_text, request_lines
from coterie.testing.views import Views
from coterie.testing.wrong_calls import right_call

# A helper may retry what fails; the latest failures are enough.
_KEPT_FAILURES = 5


class Line(NamedTuple):
    """A line that runs."""

    code: CodeType
    number: int


class ShownBroker:
    """A broker of a fixture, as reports show it.

    Attributes:
        began: when the present test began.
    """

    def __init__(self, broker: Views) -> None:
        """Show a broker from now on; the present test has just begun."""
        self._broker = broker
        self._failures: list[tuple[BaseException | Line, Report]] = []
        self.begin()

    def begin(self) -> None:
        """Begin a test."""
        self._failures.clear()
        self.began = self._broker.moment()

    def failed(self, what: BaseException | Line) -> None:
        """Look at the broker, because the test may fail with this error or in this line."""
        report = self._report()
        if isinstance(report, Report):
            self._failures = [*self._failures[1 - _KEPT_FAILURES :], (what, report)]

    def sections(self, name: str, error: BaseException) -> list[tuple[str, str]]:
        """Return the sections of the report of a test that has failed with an error."""
        now = self._report()
        if isinstance(now, str):
            return [(f"groups of {name}", now)]
        then = self._when(error)
        lines = request_lines(now, self.began, None if then is None else then.moment)
        return [
            (f"groups of {name}", then.groups if then else group_text(now, self.began)),
            (f"last requests to {name}", "\n".join(lines)),
        ]

    def page(self, title: str) -> str | None:
        """Return the report page of its groups; None without a rebalance, or if it cannot be made.

        Brokers in a process of their own have none: their journal is read by commands.
        """
        try:
            return self._broker.groups_page(title)
        except (BrokerNotStarted, WrongUse, TimeoutError):
            return None

    def _when(self, error: BaseException) -> Report | None:
        """Return how the broker was when the test failed, if it was looked at then."""
        for what, report in reversed(self._failures):
            if any(what in (each, _line_of(each.__traceback__)) for each in _chain(error)):
                return report
        return None

    def _report(self) -> Report | str:
        try:
            return self._broker.report()
        except (BrokerNotStarted, WrongUse, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"


def explain_error(
    error: BaseException, traceback: TracebackType | None, *, whole_traceback: bool
) -> bool:
    """Shorten the traceback of an error that says all, and add the right call to a wrong one.

    Args:
        error: the error of a test.
        traceback: where it was raised.
        whole_traceback: whether to leave the traceback as it is.

    Returns:
        Whether the traceback was shortened.
    """
    if isinstance(error, EXPLAINED):
        if not whole_traceback:
            end_at_caller(traceback)
        return not whole_traceback
    if (right := right_call(error)) is not None and right not in getattr(error, "__notes__", ()):
        error.add_note(right)
    return False


def _line_of(traceback: TracebackType | None) -> Line | None:
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return Line(traceback.tb_frame.f_code, traceback.tb_lineno)


def _chain(error: BaseException | None) -> Iterable[BaseException]:
    """Yield an error and those that it followed."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
