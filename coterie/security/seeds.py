"""Users that a start adds: the text of `--add-scram`, which `kafka-storage format` has, too.

SCRAM-SHA-256=[name=alice,password=alice-secret,iterations=4096]
"""

import re
from base64 import b64decode
from binascii import Error
from typing import NamedTuple

from coterie.protocol.messages.security_records import UserScramCredentialRecord
from coterie.security.credentials import Credentials, credential_of
from coterie.security.mechanisms import Mechanism
from coterie.security.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    NUMBERS,
    keys_of,
    salted_password,
)

_SEED = re.compile(r"([A-Z0-9-]+)=\[(.*)\]", re.DOTALL)
# A value may stand in quotes, and then have commas.
_FIELD = re.compile(r'\s*(name|password|salt|iterations)\s*=\s*(?:"([^"]*)"|([^,"]*))\s*(?:,|\Z)')


class InvalidSeed(ValueError):  # noqa: N818 - it is an answer to the user
    """A text is no user. The error does not show it, because it has a password."""


class ScramSeed(NamedTuple):
    """A user that a start adds."""

    mechanism: int
    name: str
    password: str
    salt: bytes | None
    iterations: int

    def __repr__(self) -> str:
        # Passwords are in no log and no traceback.
        return f"ScramSeed({self.name!r})"


def parse_seed(text: str) -> ScramSeed:
    """Parse a user.

    Raises:
        InvalidSeed: the text is none.
    """
    found = _SEED.fullmatch(text.strip())
    names = [each.value for each in NUMBERS]
    if found is None or found[1] not in names:
        raise InvalidSeed(
            f"a user is {' or '.join(names)}=[name=NAME,password=PASSWORD], with"
            " salt=BASE64 and iterations=N if you like"
        )
    fields, position = dict[str, str](), 0
    while position < len(found[2]):
        field = _FIELD.match(found[2], position)
        if field is None or field[1] in fields:
            raise InvalidSeed("between [ and ] are name, password, salt and iterations, once each")
        fields[field[1]] = field[3] if field[2] is None else field[2]
        position = field.end()
    if not fields.get("name") or not fields.get("password"):
        raise InvalidSeed("name and password are needed")
    iterations = fields.get("iterations", str(MIN_ITERATIONS))
    if not iterations.isdecimal() or not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise InvalidSeed(f"iterations are {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    try:
        salt = b64decode(fields["salt"], validate=True) if "salt" in fields else None
    except Error:
        raise InvalidSeed("the salt is not base64") from None
    number = NUMBERS[Mechanism(found[1])]
    return ScramSeed(number, fields["name"], fields["password"], salt, int(iterations))


def new_credential(
    seed: ScramSeed, existing: Credentials, salt: bytes
) -> UserScramCredentialRecord | None:
    """Return the record of a user, or None if it has this credential already.

    Args:
        seed: the user.
        existing: the credentials of the broker.
        salt: random bytes, if the seed has no salt.
    """
    known = existing.find(seed.name, seed.mechanism)
    if (
        known is not None
        and known.iterations == seed.iterations
        and seed.salt in (None, known.salt)
    ):
        salted = salted_password(seed.mechanism, seed.password, known.salt, known.iterations)
        keys = keys_of(seed.mechanism, salted, known.salt, known.iterations)
        if (keys.stored_key, keys.server_key) == (known.stored_key, known.server_key):
            return None
    salt = salt if seed.salt is None else seed.salt
    salted = salted_password(seed.mechanism, seed.password, salt, seed.iterations)
    keys = keys_of(seed.mechanism, salted, salt, seed.iterations)
    return credential_of(seed.name, seed.mechanism, keys)
