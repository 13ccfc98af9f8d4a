"""How each library is connected to a secured broker: the same ways, in the names of the library."""

import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka.abc import AbstractTokenProvider as AiokafkaTokenProvider

from tests.live.libraries import Library
from tests.live.libraries.kafka_python import kafka
from tests.live.secured.setup import PASSWORDS, Setup, Way, oauth_token

# How long a client tries that cannot log in.
PATIENCE_MS = 1_500


def client_settings(
    library: Library, setup: Setup, way: Way, user: str = "alice", password: str | None = None
) -> Mapping[str, Any]:
    """Return the settings of a client; another password means a token that has expired."""
    return _LIBRARIES[library.name](setup, way, user, password)


class _KafkaPythonTokens(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def token(self) -> str:
        return self._text


class _AiokafkaTokens(AiokafkaTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


def _token(user: str, password: str | None) -> str:
    return oauth_token(user, time.time(), is_expired=password is not None)


def _python_login(way: Way, user: str, password: str | None, tokens: type[Any]) -> dict[str, Any]:
    if not way.mechanism:
        return {}
    login: dict[str, Any] = {"sasl_mechanism": way.mechanism}
    if way.mechanism == "OAUTHBEARER":
        return login | {"sasl_oauth_token_provider": tokens(_token(user, password))}
    secret = password or PASSWORDS[user]
    return login | {"sasl_plain_username": user, "sasl_plain_password": secret}


def _kafka_python(setup: Setup, way: Way, user: str, password: str | None) -> dict[str, Any]:
    settings = {"security_protocol": way.protocol, "bootstrap_timeout_ms": PATIENCE_MS}
    settings |= _python_login(way, user, password, _KafkaPythonTokens)
    if way.protocol.endswith("SSL"):
        settings["ssl_cafile"] = setup.authority
    if not way.mechanism:
        settings |= {
            "ssl_certfile": setup.path(f"{user}.crt"),
            "ssl_keyfile": setup.path(f"{user}.key"),
        }
    return settings


def _aiokafka(setup: Setup, way: Way, user: str, password: str | None) -> dict[str, Any]:
    settings: dict[str, Any] = {"security_protocol": way.protocol}
    settings |= _python_login(way, user, password, _AiokafkaTokens)
    if password is not None:
        settings["request_timeout_ms"] = PATIENCE_MS
    if way.protocol.endswith("SSL"):
        context = ssl.create_default_context(cafile=setup.authority)
        if not way.mechanism:
            context.load_cert_chain(setup.path(f"{user}.pem"))
        settings["ssl_context"] = context
    return settings


def _confluent(setup: Setup, way: Way, user: str, password: str | None) -> dict[str, Any]:
    settings: dict[str, Any] = {"security.protocol": way.protocol, "log_level": 0}
    if way.protocol.endswith("SSL"):
        settings["ssl.ca.location"] = setup.authority
    if not way.mechanism:
        return settings | {
            "ssl.certificate.location": setup.path(f"{user}.crt"),
            "ssl.key.location": setup.path(f"{user}.key"),
        }
    settings["sasl.mechanism"] = way.mechanism
    if way.mechanism == "OAUTHBEARER":
        # librdkafka would not send what it knows to have expired.
        token = _token(user, password), time.time() + 3600
        return settings | {"oauth_cb": lambda _: token}
    secret = password or PASSWORDS[user]
    return settings | {"sasl.username": user, "sasl.password": secret}


_LIBRARIES: dict[str, Callable[[Setup, Way, str, str | None], dict[str, Any]]] = {
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
    "confluent": _confluent,
}
