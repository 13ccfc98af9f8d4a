"""Users of a broker that runs: listed, added and revoked, as tests do.

Users of PLAIN are settings, so a change of them is gone with a restart.
"""

from coterie.protocol.messages.security_records import RemoveUserScramCredentialRecord
from coterie.security.mechanisms import Mechanism
from coterie.security.plain import PlainServer
from coterie.security.scram import MIN_ITERATIONS, NUMBERS
from coterie.security.seeds import ScramSeed
from coterie.server.broker import Broker
from coterie.server.security.seeding import add_seeds


def user_names(broker: Broker) -> list[str]:
    """Return the users that can log in with a password, sorted."""
    names = set(broker.credentials.users)
    for plain in _plain_servers(broker):
        names |= plain.users
    return sorted(names)


def add_user(broker: Broker, user: str, password: str) -> None:
    """Let a user log in with a password and every mechanism that a listener has."""
    for plain in _plain_servers(broker):
        plain.add(user, password)
    seeds = [ScramSeed(number, user, password, None, MIN_ITERATIONS) for number in NUMBERS.values()]
    add_seeds(broker, seeds, ())


def revoke_user(broker: Broker, user: str) -> None:
    """Let a user log in no more."""
    for plain in _plain_servers(broker):
        plain.remove(user)
    mechanisms = broker.credentials.users.get(user, {})
    records = [RemoveUserScramCredentialRecord(name=user, mechanism=each) for each in mechanisms]
    if records:
        broker.security_log.append(records, lambda _: None)


def _plain_servers(broker: Broker) -> list[PlainServer]:
    found = [each.servers.get(Mechanism.PLAIN) for each in broker.logins.listeners]
    return [each for each in found if isinstance(each, PlainServer)]
