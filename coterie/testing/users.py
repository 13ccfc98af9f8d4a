"""The users of a broker of a test: their passwords, and what clients log in with."""

import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from coterie.security.mechanisms import Mechanism
from coterie.testing.client_configs import CONFLUENT, KAFKA_STREAMS
from coterie.testing.errors import WrongUse

if TYPE_CHECKING:
    from coterie.security.seeds import ScramSeed

_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
# Random characters of a password that the test does not give.
_PASSWORD_BYTES = 16

# The mechanisms that a broker of a test has: each user can log in with all of them.
MECHANISMS = (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


class Users:
    """The users, with a password for each that no other broker has.

    Attributes:
        passwords: the passwords by user.
        mechanism: what `client_config` lets clients log in with.
        changed: those of users that were added or changed since, by user.
        revoked: the users that can log in no more.
    """

    def __init__(self, users: Mapping[str, str] | Iterable[str], mechanism: str) -> None:
        """Take the users.

        Args:
            users: their names, or their passwords by name.
            mechanism: of the clients.

        Raises:
            WrongUse: there is no such mechanism, or a name or password is empty.
        """
        try:
            self.mechanism = Mechanism(mechanism)
        except ValueError:
            self.mechanism = Mechanism.OAUTHBEARER
        if self.mechanism not in MECHANISMS:
            names = ", ".join(each.value for each in MECHANISMS)
            raise WrongUse(f"mechanism: {mechanism!r} is none of: {names}")
        given = dict(users) if isinstance(users, Mapping) else dict.fromkeys(users, "")
        self.passwords = {name: password or new_password() for name, password in given.items()}
        self.changed: dict[str, str] = {}
        self.revoked: set[str] = set()
        if "" in self.passwords:
            raise WrongUse("users: a user has a name")

    def add(self, user: str, password: str) -> None:
        """Add a user, or change its password."""
        self.passwords[user] = self.changed[user] = password
        self.revoked.discard(user)

    def settings(self, listener: str) -> dict[str, str]:
        """Return the settings of a listener, given by its name."""
        options = " ".join(
            f'user_{name}="{_escaped(password)}"'
            for name, password in self.passwords.items()
            if name not in self.revoked
        )
        prefix = f"listener.name.{listener.lower()}"
        return {
            "sasl.enabled.mechanisms": ",".join(each.value for each in MECHANISMS),
            f"{prefix}.plain.sasl.jaas.config": f"{_PLAIN_MODULE} required {options};",
            # A test waits for each failed login.
            "connection.failed.authentication.delay.ms": "0",
        }

    def seeds(self) -> "list[ScramSeed]":
        """Return the SCRAM credentials of all users."""
        # Only a broker with users needs this.
        from coterie.security.scram import MIN_ITERATIONS, NUMBERS
        from coterie.security.seeds import ScramSeed

        return [
            ScramSeed(number, name, password, None, MIN_ITERATIONS)
            for name, password in self.passwords.items()
            if name not in self.revoked
            for number in NUMBERS.values()
        ]

    def found(self, user: str | None) -> str:
        """Return a user; the first one for None.

        Raises:
            WrongUse: there is no such user.
        """
        name = next(iter(self.passwords), None) if user is None else user
        if name is None or name not in self.passwords:
            raise WrongUse(f"user: {user!r} is none of: {', '.join(self.passwords)}")
        return name

    def client_config(self, library: str, user: str) -> dict[str, Any]:
        """Return what a client of a library logs in with.

        Args:
            library: its name.
            user: one of the users.
        """
        values = self.mechanism.value, user, self.passwords[user]
        if library == KAFKA_STREAMS:
            module = _PLAIN_MODULE if self.mechanism is Mechanism.PLAIN else _SCRAM_MODULE
            login = f'username="{_escaped(user)}" password="{_escaped(self.passwords[user])}"'
            return {
                "sasl.mechanism": self.mechanism.value,
                "sasl.jaas.config": f"{module} required {login};",
            }
        if library == CONFLUENT:
            names = "sasl.mechanism", "sasl.username", "sasl.password"
        else:
            names = "sasl_mechanism", "sasl_plain_username", "sasl_plain_password"
        return dict(zip(names, values, strict=True))


def new_password() -> str:
    """Return a password that nobody guesses."""
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def _escaped(password: str) -> str:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    return escaped.replace("\n", "\\n").replace("\r", "\\r")
