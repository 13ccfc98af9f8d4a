"""Users of brokers that run: listed, added and revoked, as tests do.

Users of PLAIN are settings, so a change of them is gone with a restart.
"""

from collections.abc import Sequence

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


def add_user(brokers: Sequence[Broker], user: str, password: str) -> None:
    """Let a user log in at brokers with a password and every mechanism that a listener has."""
    for broker in brokers:
        for plain in _plain_servers(broker):
            plain.add(user, password)
    # These belong to all brokers of a process.
    seeds = [ScramSeed(number, user, password, None, MIN_ITERATIONS) for number in NUMBERS.values()]
    for broker in brokers[:1]:
        add_seeds(broker, seeds, ())


def revoke_user(brokers: Sequence[Broker], user: str) -> None:
    """Let a user log in no more at brokers."""
    for broker in brokers:
        for plain in _plain_servers(broker):
            plain.remove(user)
    for broker in brokers[:1]:
        _remove_credentials(broker, user)


def _remove_credentials(broker: Broker, user: str) -> None:
    mechanisms = broker.credentials.users.get(user, {})
    records = [RemoveUserScramCredentialRecord(name=user, mechanism=each) for each in mechanisms]
    if records:
        broker.security_log.append(records, lambda _: None)


def _plain_servers(broker: Broker) -> list[PlainServer]:
    found = [each.servers.get(Mechanism.PLAIN) for each in broker.logins.listeners]
    return [each for each in found if isinstance(each, PlainServer)]
