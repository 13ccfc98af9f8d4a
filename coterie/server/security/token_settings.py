"""The settings of OAUTHBEARER: who accepts the tokens of a listener [security/oauthbearer]."""

from collections.abc import Mapping
from importlib.util import find_spec

from coterie.security.mechanisms import Mechanism
from coterie.security.oauthbearer import TokenValidator, UnsecuredTokens
from coterie.server.config.broker_keys import KEYS_URL, OAUTH_HANDLER, SIGNED_TOKENS
from coterie.server.config.config import Config
from coterie.server.config.listeners import Listener, ListenerSettings
from coterie.server.config.sources import ConfigError
from coterie.server.environment import Environment
from coterie.server.security.signed_tokens import Expected, Keys, SignedTokens

# Both names of Kafka's, the second one before 4.0.
_SIGNED = (
    SIGNED_TOKENS,
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)


def token_validator(
    config: Config, listener: Listener, options: Mapping[str, str], environment: Environment
) -> TokenValidator:
    """Return what accepts the tokens of a listener.

    Args:
        config: the settings.
        listener: the listener.
        options: of its JAAS text.
        environment: its loop and clock, to fetch keys anew.

    Raises:
        ConfigError: the settings cannot be used.
    """
    settings = ListenerSettings(config, listener.name)
    name = Mechanism.OAUTHBEARER.value
    handler = settings.text(OAUTH_HANDLER, name)
    if handler is None:
        return _unsecured(options)
    if handler not in _SIGNED:
        raise ConfigError(
            f"{settings.origin(OAUTH_HANDLER, name)}: no class is loaded for {OAUTH_HANDLER};"
            f" the one that is known is {SIGNED_TOKENS}"
        )
    url = settings.text(KEYS_URL, name)
    if not url:
        raise ConfigError(
            f"{KEYS_URL} is not set, so no signature could be checked. Set it to the keys of your"
            " issuer, https: or file:"
        )
    if find_spec("joserfc") is None:
        raise ConfigError("signed tokens need a library: pip install 'coterie[security]'")
    refresh_ms = settings.value("sasl.oauthbearer.jwks.endpoint.refresh.ms", name)
    skew_s = settings.value("sasl.oauthbearer.clock.skew.seconds", name)
    audience = settings.value("sasl.oauthbearer.expected.audience", name)
    assert isinstance(refresh_ms, int), "it has a default"
    assert isinstance(skew_s, int), "it has a default"
    expected = Expected(
        audience if isinstance(audience, tuple) else (),
        settings.text("sasl.oauthbearer.expected.issuer", name),
        settings.text("sasl.oauthbearer.scope.claim.name", name) or "scope",
        settings.text("sasl.oauthbearer.sub.claim.name", name) or "sub",
        skew_s,
    )
    return SignedTokens(Keys(url, refresh_ms, environment), expected)


def _unsecured(options: Mapping[str, str]) -> UnsecuredTokens:
    skew = options.get("unsecuredValidatorAllowableClockSkewMs", "0")
    if not skew.isdecimal():
        raise ConfigError("unsecuredValidatorAllowableClockSkewMs is no number of milliseconds")
    return UnsecuredTokens(
        int(skew),
        options.get("unsecuredValidatorPrincipalClaimName", "sub"),
        options.get("unsecuredValidatorScopeClaimName", "scope"),
        tuple(options.get("unsecuredValidatorRequiredScope", "").split()),
    )
