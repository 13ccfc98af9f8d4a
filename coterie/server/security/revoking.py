"""Taking the credentials of a user away, as tests do."""

from coterie.protocol.messages.security_records import RemoveUserScramCredentialRecord
from coterie.security.mechanisms import Mechanism
from coterie.security.plain import PlainServer
from coterie.server.network.channel import ConnectionServices


def revoke_user(broker: ConnectionServices, user: str) -> None:
    """Let a user log in no more. Those of PLAIN are back after a restart, as they are settings."""
    for listener in broker.logins.listeners:
        plain = listener.servers.get(Mechanism.PLAIN)
        if isinstance(plain, PlainServer):
            plain.remove(user)
    mechanisms = broker.credentials.users.get(user, {})
    records = [RemoveUserScramCredentialRecord(name=user, mechanism=each) for each in mechanisms]
    if records:
        broker.security_log.append(records, lambda _: None)
