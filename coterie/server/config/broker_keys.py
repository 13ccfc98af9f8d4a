"""The broker's settings that have an effect here: Kafka's names, types, defaults and ranges.

They are the rows of `broker_settings.tsv` that say what a setting does; `kafka_keys.py` has all
rows. Names that begin with `journal.` and `event.loop.` are our own, as is
`telemetry.announce.enable`. Where a default or a range differs from Kafka's, [settings/differences]
gives the reason.
"""

from coterie.server.config.keys import ConfigKey
from coterie.server.config.tables import key_of, rows

AUTHORIZER_CLASS = "authorizer.class.name"
PER_IP_OVERRIDES = "max.connections.per.ip.overrides"
CREATION_RATE = "max.connection.creation.rate"
MAX_CONNECTIONS = "max.connections"
# What checks tokens, without which they are unsecured, and where it has its keys from.
OAUTH_HANDLER = "sasl.server.callback.handler.class"
SIGNED_TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
KEYS_URL = "sasl.oauthbearer.jwks.endpoint.url"
RECEIVE_BUFFER = "socket.receive.buffer.bytes"
SEND_BUFFER = "socket.send.buffer.bytes"
LISTEN_BACKLOG = "socket.listen.backlog.size"

BROKER_TABLE = "broker_settings.tsv"
OWN = "own"
# The columns of Kafka's description, and that of the effect.
KAFKAS = 5
_COLUMNS = ("name", "type", "default", "valid", "update")


def _broker_key(columns: list[str]) -> ConfigKey:
    """Return the setting of a row as it is here."""
    values = dict(zip(_COLUMNS, columns, strict=False))
    here = columns[KAFKAS + 1].split(" ") if len(columns) > KAFKAS + 1 else []
    if here != [OWN]:
        values.update(zip(here[::2], here[1::2], strict=True))
    return key_of(tuple(values.values()), columns[KAFKAS])


BROKER: dict[str, ConfigKey] = {
    columns[0]: _broker_key(columns) for columns in rows(BROKER_TABLE) if len(columns) > KAFKAS
}
