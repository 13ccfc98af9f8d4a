"""How connections are secured: TLS and logins, from the client properties that Kafka's tools take.

A file for `--command-config` of Kafka's tools works unchanged, with what this client has: TLS with
certificates in PEM files or in the properties, and the mechanisms PLAIN, SCRAM and OAUTHBEARER
[client/properties]. Names that no secured connection needs are ignored, and misspelt names refused.
"""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Mapping

from coterie.client.errors import ClientError, LoginFailed
from coterie.client.mechanisms import MECHANISMS, Credentials, unsecured_token
from coterie.client.security import OAUTHBEARER, PLAINTEXT, Security
from coterie.client.tls import client_context
from coterie.near_names import did_you_mean
from coterie.security.jaas import JaasError, LoginModule, parse_jaas

PROTOCOL = "security.protocol"
MECHANISM = "sasl.mechanism"
JAAS = "sasl.jaas.config"
TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a name

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# What this client reads, and what it may ignore because a connection is as safe without it.
_READ = frozenset(
    {
        PROTOCOL, MECHANISM, JAAS, TOKEN_ENDPOINT,
        "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password",
        "ssl.truststore.certificates", "ssl.keystore.type", "ssl.keystore.location",
        "ssl.keystore.password", "ssl.keystore.key", "ssl.keystore.certificate.chain",
        "ssl.key.password", "ssl.endpoint.identification.algorithm",
    }
)  # fmt: skip
_IGNORED = frozenset(
    {
        "security.providers", "ssl.cipher.suites", "ssl.enabled.protocols",
        "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider",
        "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
        "sasl.client.callback.handler.class",
    }
)  # fmt: skip
_IGNORED_PREFIXES = ("sasl.login.", "sasl.kerberos.", "sasl.oauthbearer.")
_PREFIXES = ("security.", "ssl.", "sasl.")
_CLAIM_PREFIXES = {"unsecuredLoginStringClaim_": str, "unsecuredLoginNumberClaim_": float}
_TOKEN_TIMEOUT_S = 10.0
_MAX_TOKEN_BYTES = 1 << 20


def security_of(properties: Mapping[str, str]) -> Security:
    """Return what client properties ask for.

    Raises:
        ClientError: a name or value is wrong, or this client does not support it.
    """
    for name in properties:
        _check_name(name)
    protocol = properties.get(PROTOCOL, _PROTOCOLS[0]).strip().upper()
    if protocol not in _PROTOCOLS:
        raise ClientError(
            f"{PROTOCOL} is {protocol!r}.", f"Set it to one of: {', '.join(_PROTOCOLS)}."
        )
    context = client_context(properties) if protocol.endswith("SSL") else None
    if protocol == _PROTOCOLS[0]:
        return PLAINTEXT
    if not protocol.startswith("SASL"):
        return Security(context)
    mechanism = properties.get(MECHANISM, "GSSAPI").strip()
    if mechanism not in MECHANISMS:
        raise ClientError(
            f"This client does not have the SASL mechanism {mechanism}.",
            f"Set {MECHANISM} to one of: {', '.join(MECHANISMS)}.",
        )
    jaas = _jaas_of(properties, mechanism)
    return Security(context, mechanism, jaas.options, properties.get(TOKEN_ENDPOINT, "").strip())


def _check_name(name: str) -> None:
    known = name in _READ or name in _IGNORED or name.startswith(_IGNORED_PREFIXES)
    if known or not name.startswith(_PREFIXES):
        return
    raise ClientError(
        f"{name} is no client property{did_you_mean(name, _READ | _IGNORED, 'client properties')}"
    )


def _jaas_of(properties: Mapping[str, str], mechanism: str) -> LoginModule:
    try:
        entry = parse_jaas(properties.get(JAAS, ""))
    except JaasError as error:
        raise ClientError(
            f"{JAAS} is wrong: {error}.",
            'Write it as: CLASS required username="USER" password="PASSWORD";',
        ) from error
    if mechanism != OAUTHBEARER and not entry.options.get("username"):
        raise ClientError(f"{JAAS} names no user.", 'Add username="USER" password="PASSWORD".')
    return entry


def credentials_of(security: Security) -> Credentials:
    """Return what the next connection logs in with; OAuth tokens are fetched anew.

    Raises:
        LoginFailed: no token was issued.
    """
    mechanism, jaas = security.mechanism, security.jaas
    if mechanism != OAUTHBEARER:
        user, secret = jaas.get("username", ""), jaas.get("password", "")
        return Credentials(mechanism, user, secret, jaas.get("tokenauth", "").lower() == "true")
    if security.token_endpoint:
        name = jaas.get("clientId", "")
        return Credentials(mechanism, name, _fetched_token(security.token_endpoint, jaas))
    claims = {
        key.removeprefix(prefix): kind(value)
        for prefix, kind in _CLAIM_PREFIXES.items()
        for key, value in jaas.items()
        if key.startswith(prefix)
    }
    subject = str(claims.pop("sub", ""))
    return Credentials(mechanism, subject, unsecured_token(subject, claims, time.time()))


def _fetched_token(endpoint: str, jaas: Mapping[str, str]) -> str:
    """Return a token that the client's id and secret are good for (RFC 6749, 4.4)."""
    if urllib.parse.urlsplit(endpoint).scheme not in ("http", "https"):
        raise LoginFailed(f"{TOKEN_ENDPOINT} is no http or https address: {endpoint}.")
    pair = f"{jaas.get('clientId', '')}:{jaas.get('clientSecret', '')}"
    form = {"grant_type": "client_credentials"}
    if jaas.get("scope"):
        form["scope"] = jaas["scope"]
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        endpoint,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_TOKEN_TIMEOUT_S) as answer:  # noqa: S310
            token = json.loads(answer.read(_MAX_TOKEN_BYTES))["access_token"]
    except urllib.error.HTTPError as error:
        error.close()
        # Without the body, which may repeat the secret.
        raise LoginFailed(f"{endpoint} refuses a token: HTTP status {error.code}.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LoginFailed(f"{endpoint} issued no token: {type(error).__name__}.") from error
    return str(token)
