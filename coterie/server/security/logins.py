"""What the logins at all listeners of a broker share [security/login-delay]."""

from asyncio import AbstractEventLoop, TimerHandle
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.security.login import Mechanisms

# Each keeps a connection and a timer, some 5 KiB; a service that restarts with a wrong password
# makes a few hundred. Beyond that a failed login is closed at once.
MOST_HELD = 1_000
NO_MECHANISM = "none"


class LoginCounts:
    """How many logins have ended how, by the name of the listener and that of the mechanism.

    Attributes:
        succeeded, failed: the counts; one that failed before its handshake has `NO_MECHANISM`.
    """

    def __init__(self) -> None:
        """Start with none."""
        self.succeeded: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()


class Logins:
    """The logins of a broker.

    Attributes:
        held: how many failed ones are held before they are answered.
        listeners: the mechanisms of each listener with SASL.
        first, again: the first logins of connections, and later ones (KIP-368).
    """

    def __init__(self) -> None:
        """Start without listeners."""
        self.held = 0
        self.listeners: list[Mechanisms] = []
        self.first, self.again = LoginCounts(), LoginCounts()

    def hold(
        self, loop: AbstractEventLoop, delay_s: float, end: Callable[[], None]
    ) -> TimerHandle | None:
        """Hold a failed login, and call `end` after the delay; None if too many are held."""
        if self.held >= MOST_HELD:
            return None
        self.held += 1
        return loop.call_later(delay_s, self._end, end)

    def release(self, timer: TimerHandle) -> None:
        """Forget a failed login that is held, because its connection was lost."""
        timer.cancel()
        self.held -= 1

    def _end(self, end: Callable[[], None]) -> None:
        self.held -= 1
        end()
