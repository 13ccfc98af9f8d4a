"""What the logins at all listeners of a broker share [security/login-delay].

Invariant: every label of the counts is one of a small number of values [metrics/logins].
"""

from asyncio import AbstractEventLoop, TimerHandle
from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.security.login import Mechanisms

# Each keeps a connection and a timer, some 5 KiB; a service that restarts with a wrong password
# makes a few hundred. Beyond that a failed login is closed at once.
MOST_HELD = 1_000
# What counts have in place of a mechanism of SASL: the handshake of TLS, or no mechanism yet.
TLS, NO_MECHANISM = "TLS", "none"


class Failure(Enum):
    """Why a handshake of TLS or a login has failed."""

    TLS = "tls"  # the peer does not speak TLS, or no version or cipher that the broker does
    CERTIFICATE = "certificate"  # that of the client is missing, expired or not trusted
    ALERT = "alert"  # the client has ended the handshake, such as for the broker's certificate
    LIMIT = "limit"  # the handshake was too long, or others waited for it
    PRINCIPAL = "principal"  # no rule gives the client a name
    REQUEST = "request"  # the bytes are nothing that the login takes at this point
    MECHANISM = "mechanism"  # the listener does not have it, or a later login has changed it
    CREDENTIALS = "credentials"  # a wrong or expired password or token, or another user than before
    TIMEOUT = "timeout"  # the login took too long


class LoginCounts:
    """How many handshakes and logins have ended how, by the name of the listener and the mechanism.

    Attributes:
        succeeded: the counts.
        failed: the counts, by the reason besides.
    """

    def __init__(self) -> None:
        """Start with none."""
        self.succeeded: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[tuple[str, str, Failure]] = Counter()


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
