"""Settings by which a broker asks for less than it seems to [security/weak-settings]."""

from collections.abc import Iterator, Sequence

from coterie.address import LOOPBACK
from coterie.server.config.broker_keys import AUTHORIZER_CLASS, OAUTH_HANDLER
from coterie.server.config.config import Config
from coterie.server.config.kafka_keys import ALLOWED_WITHOUT_ACL, SUPER_USERS
from coterie.server.config.listeners import Listener, ListenerSettings, SecurityProtocol

_OAUTH = "OAUTHBEARER"
_ANONYMOUS = "User:ANONYMOUS"


def weaknesses(config: Config, listeners: Sequence[Listener]) -> Iterator[str]:
    """Yield a sentence about each such setting, for the log.

    Args:
        config: the settings.
        listeners: the listeners, with the hosts that they listen on.
    """
    for each in listeners:
        if each.address.host not in LOOPBACK:
            yield from _of_listener(config, each)
    if not config.get_text(AUTHORIZER_CLASS):
        return
    if _ANONYMOUS in [each.strip() for each in (config.text(SUPER_USERS) or "").split(";")]:
        yield f"{SUPER_USERS} has {_ANONYMOUS}: clients without a login may do everything"
    if config.text(ALLOWED_WITHOUT_ACL) == "true":
        yield f"{ALLOWED_WITHOUT_ACL}=true: what no access rule is about is open to everybody"


def has_unsigned_tokens(config: Config, listener: Listener) -> bool:
    """Return whether clients of a listener log in with tokens that everybody can write."""
    if not listener.protocol.has_sasl:
        return False
    settings = ListenerSettings(config, listener.name)
    return _OAUTH in _mechanisms(settings) and settings.text(OAUTH_HANDLER, _OAUTH) is None


def _of_listener(config: Config, listener: Listener) -> Iterator[str]:
    if has_unsigned_tokens(config, listener):
        yield f"listener {listener.name} lets other machines log in with tokens nobody has signed"
    is_readable = listener.protocol is SecurityProtocol.SASL_PLAINTEXT
    if is_readable and "PLAIN" in _mechanisms(ListenerSettings(config, listener.name)):
        yield f"listener {listener.name} has PLAIN without TLS, so passwords can be read on the way"


def _mechanisms(settings: ListenerSettings) -> Sequence[str]:
    found = settings.value("sasl.enabled.mechanisms")
    return found if isinstance(found, tuple) else ()
