"""Users and access rules that a start adds, if they are not there already.

They count at once, and are as durable as everything when the broker stops.
"""

from collections.abc import Sequence

from coterie.security.acl import Acl
from coterie.security.seeds import ScramSeed, new_credential
from coterie.server.services import SharedServices

_SALT_BYTES = 20


def add_seeds(shared: SharedServices, users: Sequence[ScramSeed], acls: Sequence[Acl]) -> None:
    """Give users their SCRAM credentials, and add rules for the authorizer.

    Args:
        shared: a broker, or what several share; with an authorizer, if there are rules.
        users: the users.
        acls: the rules.
    """
    for seed in users:
        salt = shared.environment.random_bytes(_SALT_BYTES)
        record = new_credential(seed, shared.credentials, salt)
        if record is not None:
            shared.security_log.append([record], lambda _: None)
    if acls:
        assert shared.access is not None, "the options were checked"
        shared.access.change(acls, (), lambda _: None)
