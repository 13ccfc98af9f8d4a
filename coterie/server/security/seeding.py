"""Users and access rules that a start adds, if they are not there already.

They count at once, and are as durable as everything when the broker stops.
"""

from collections.abc import Sequence

from coterie.security.acl import Acl
from coterie.security.seeds import ScramSeed, new_credential
from coterie.server.broker import Broker

_SALT_BYTES = 20


def add_seeds(broker: Broker, users: Sequence[ScramSeed], acls: Sequence[Acl]) -> None:
    """Give users their SCRAM credentials, and add rules for the authorizer.

    Args:
        broker: the broker; with an authorizer, if there are rules.
        users: the users.
        acls: the rules.
    """
    for seed in users:
        salt = broker.environment.random_bytes(_SALT_BYTES)
        record = new_credential(seed, broker.credentials, salt)
        if record is not None:
            broker.security_log.append([record], lambda _: None)
    if acls:
        assert broker.access is not None, "the options were checked"
        broker.access.change(acls, (), lambda _: None)
