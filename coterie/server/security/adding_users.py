"""Adding users at a start, as `coterie serve --add-scram` and brokers of tests do."""

from collections.abc import Sequence

from coterie.security.seeds import ScramSeed, new_credential
from coterie.server.services import Services

_SALT_BYTES = 20


def add_users(broker: Services, seeds: Sequence[ScramSeed]) -> None:
    """Give users their SCRAM credentials, if they do not have them already.

    They can log in at once, and are as durable as everything when the broker stops.
    """
    for seed in seeds:
        salt = broker.environment.random_bytes(_SALT_BYTES)
        record = new_credential(seed, broker.credentials, salt)
        if record is not None:
            broker.security_log.append([record], lambda _: None)
