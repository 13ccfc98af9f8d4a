"""A broker that stops while it is checked: when that was, and what it was sent last.

What follows is no finding: nothing can be checked any more. So the run ends there, and what the
broker got last is what its author looks at first.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from coterie.conformance.checks.check import Check
from coterie.conformance.over_tcp.driver import TcpDriver

# The request that stopped the broker was sent near its last answer. Many checks run at once, so it
# is one of several.
_BEFORE_S = 0.1
_WITHIN_S = 2.0
_MOST_SHOWN = 10
_SENT = re.compile(r"(?P<client>[a-z]\w*(?:\.\d+)?)> ")
_ANSWERED = re.compile(r"(?P<client>[a-z]\w*(?:\.\d+)?)< (?!closed)")


class BrokerStoppedError(Exception):
    """The broker has stopped listening, or answering; the text says which."""


class LastRequest(NamedTuple):
    """A request that the broker has not answered.

    Attributes:
        sent_s: when it was sent, by time.monotonic.
        check: the name of its check.
        text: the line of the transcript.
    """

    sent_s: float
    check: str
    text: str


class Stop(NamedTuple):
    """How a broker stopped.

    Attributes:
        what: what it does no more, listening or answering.
        checks: how many had been carried out before.
        last: the requests that were sent last and have no response, the latest first.
    """

    what: str
    checks: int
    last: tuple[LastRequest, ...]

    def reason(self, *, was_begun: bool) -> str:
        """Return why a check has no result."""
        if was_begun:
            return f"not judged: the broker stopped {self.what} meanwhile"
        return f"not run: the broker stopped {self.what}"

    @property
    def sentence(self) -> str:
        """What happened, in one sentence."""
        return f"The broker stopped {self.what} after {self.checks} checks."

    @property
    def as_json(self) -> dict[str, Any]:
        """What happened as programs get it; the times count from the latest request."""
        latest_s = self.last[0].sent_s if self.last else 0.0
        lines = [
            f"{each.check}  {each.text.strip()}  ({(each.sent_s - latest_s) * 1000:.0f} ms)"
            for each in self.last
        ]
        return {"sentence": self.sentence, "checks": self.checks, "last_sent": lines}


def stop_of(what: str, begun: Iterable[tuple[Check, TcpDriver]], checks: int) -> Stop:
    """Describe how a broker stopped.

    Args:
        what: what it does no more.
        begun: every check that was begun, with its conversation.
        checks: how many were carried out.
    """
    begun = list(begun)
    heard_s = max((driver.heard_s for _, driver in begun), default=0.0)
    found = [each for check, driver in begun for each in _unanswered(check, driver)]
    latest_s = max((each.sent_s for each in found), default=0.0)
    # What was sent long before the last answer waits for something else, such as a JoinGroup.
    since_s = max(heard_s - _BEFORE_S, latest_s - _WITHIN_S)
    suspects = [each for each in found if each.sent_s >= since_s]
    nearest = sorted(suspects, key=lambda each: abs(each.sent_s - heard_s))[:_MOST_SHOWN]
    return Stop(what, checks, tuple(sorted(nearest, reverse=True)))


def _unanswered(check: Check, driver: TcpDriver) -> list[LastRequest]:
    """Return the last request of each client that has no response."""
    waiting: dict[str, LastRequest] = {}
    for said in driver.conversation:
        sent, answered = _SENT.match(said.text), _ANSWERED.match(said.text)
        if sent is not None:
            sent_s = driver.began_s + said.elapsed_s
            waiting[sent["client"]] = LastRequest(sent_s, check.name, said.text)
        elif answered is not None:
            waiting.pop(answered["client"], None)
    return list(waiting.values())
