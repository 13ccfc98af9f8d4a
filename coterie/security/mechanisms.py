"""What all SASL mechanisms have in common: steps of a login, their outcome, and how it fails."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol


class Mechanism(StrEnum):
    """The mechanisms that are served, by their names on the wire."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class LoggedIn(NamedTuple):
    """Who has logged in.

    Attributes:
        name: the user.
        expires_ms: when the credential expires, in epoch milliseconds; None for never.
        by_token: whether a delegation token was the credential.
    """

    name: str
    expires_ms: int | None = None
    by_token: bool = False

    @property
    def principal(self) -> str:
        """The principal, as Kafka writes it."""
        return f"User:{self.name}"


class Step(NamedTuple):
    """What the server answers to a token of the client.

    Attributes:
        token: the token of the server.
        who: who has logged in; None if another token of the client must follow.
    """

    token: bytes
    who: LoggedIn | None = None


class LoginFailed(Exception):  # noqa: N818 - a failed login is an answer, not an error of ours
    """A login has failed.

    Attributes:
        text: what the client is answered; None for Kafka's text that says nothing of the cause.
    """

    def __init__(self, text: str | None = None) -> None:
        super().__init__(text)
        self.text = text


OTHER_USER = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class Conversation(Protocol):
    """The server's side of one login by a mechanism. It is given up after a failure."""

    def step(self, token: bytes, now_ms: int) -> Step:
        """Take a token of the client.

        Raises:
            LoginFailed: the login has failed.
        """


class Server(Protocol):
    """A mechanism of a listener."""

    def begin(self, random: bytes) -> Conversation:
        """Begin a login, with `RANDOM_BYTES` random bytes."""


# How many random bytes a login may use.
RANDOM_BYTES = 20


def listed(mechanisms: Sequence[Mechanism]) -> list[str]:
    """Return the names of mechanisms, as SaslHandshake answers them."""
    return [each.value for each in mechanisms]
