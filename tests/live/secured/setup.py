"""Listeners with each security protocol and mechanism: for our broker, for Kafka, and for clients.

The settings and the client properties have Kafka's names, so both brokers and all of Kafka's
programs take them unchanged. User alice may do everything with topics, groups and transactional
ids, and bob may see topics and write to one that does not exist. The administrator has a listener
without security.
"""

from base64 import b64encode
from pathlib import Path
from typing import NamedTuple

from coterie.authority import CertificateAuthority
from coterie.client.client_properties import security_of
from coterie.client.cluster import Cluster
from coterie.client.mechanisms import unsecured_token
from coterie.processes import free_port
from coterie.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
)
from coterie.protocol.messages.create_acls import CreateAclsResponse
from coterie.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from coterie.security.acl_messages import creation_request
from coterie.security.acl_text import parse_acl
from coterie.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from coterie.security.scram import MIN_ITERATIONS, NUMBERS, salted_password
from coterie.server.authorization.access import STANDARD_AUTHORIZER

PASSWORDS = {"alice": "alice's secret", "bob": "bob's secret"}
WRONG_PASSWORD = "a guess"
# What the text of a failed login says.
FAILED_LOGINS = {
    "PLAIN": "Authentication failed: Invalid username or password",
    "SCRAM-SHA-256": "invalid credentials with SASL mechanism SCRAM-SHA-256",
    "SCRAM-SHA-512": "invalid credentials with SASL mechanism SCRAM-SHA-512",
    "OAUTHBEARER": "invalid_token",
}
MECHANISMS = tuple(FAILED_LOGINS)
TOKEN = "TOKEN"
RULES = (
    *(f"User:alice ALLOW ALL {kind} *" for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")),
    "User:alice ALLOW ALL CLUSTER",
    "User:bob ALLOW DESCRIBE TOPIC *",
    # So bob may have a producer id, as idempotent producers need it.
    "User:bob ALLOW WRITE TOPIC elsewhere",
)
_LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    # Their certificate is that of another host.
    "OTHER_SSL": "SSL",
    "OTHER_SASL_SSL": "SASL_SSL",
}
_HOST = "127.0.0.1"
_HOUR_S = 3600


class Way(NamedTuple):
    """How a client is connected.

    Attributes:
        listener: the name of the listener.
        mechanism: of the login; TOKEN for a delegation token, empty for a certificate.
    """

    listener: str
    mechanism: str = ""

    @property
    def protocol(self) -> str:
        """The security protocol."""
        return _LISTENERS[self.listener]

    def __str__(self) -> str:
        return f"{self.listener} {self.mechanism}".strip()


CERTIFICATES = Way("SSL")
WAYS = (
    CERTIFICATES,
    *(
        Way(listener, mechanism)
        for listener in ("SASL_PLAINTEXT", "SASL_SSL")
        for mechanism in MECHANISMS
    ),
)
TOKEN_WAYS = (Way("SASL_PLAINTEXT", TOKEN), Way("SASL_SSL", TOKEN))
WRONG_HOST_WAYS = (Way("OTHER_SSL"), Way("OTHER_SASL_SSL", "PLAIN"))


class Setup:
    """Certificates, ports and tokens of one broker.

    Attributes:
        ports: by the name of the listener.
        authority: the file that clients trust.
    """

    def __init__(self, directory: Path) -> None:
        """Write certificates into a directory, and choose ports."""
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.ports = {name: free_port() for name in _LISTENERS}
        authority = CertificateAuthority()
        issued = {
            "server": authority.issue("broker", ["localhost", _HOST]),
            "other": authority.issue("broker", ["broker.invalid"]),
            **{user: authority.issue(user) for user in PASSWORDS},
        }
        self.authority = self._write("authority.pem", authority.certificate)
        for name, each in issued.items():
            self._write(f"{name}.pem", each.pem)
            self._write(f"{name}.key", each.key)
            self._write(f"{name}.crt", each.certificate)
        # The ids and passwords of delegation tokens, by user.
        self.tokens: dict[str, tuple[str, str]] = {}

    def _write(self, name: str, text: str) -> str:
        path = self._directory / name
        path.write_text(text, encoding="ascii")
        return str(path)

    def path(self, name: str) -> str:
        """Return the path of a file: `USER.pem`, or `USER.key` and `USER.crt`."""
        return str(self._directory / name)

    def bootstrap(self, listener: str) -> str:
        """Return the address of a listener."""
        return f"{_HOST}:{self.ports[listener]}"

    # --- the broker -------------------------------------------------------------------------------

    def settings(self) -> dict[str, str]:
        """Return the settings of a broker, for ours and for Kafka."""
        addresses = ",".join(f"{name}://{self.bootstrap(name)}" for name in _LISTENERS)
        settings = {
            "listeners": addresses,
            "advertised.listeners": addresses,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in _LISTENERS.items()
            ),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.path("server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.other_ssl.ssl.keystore.location": self.path("other.pem"),
            "listener.name.other_sasl_ssl.ssl.keystore.location": self.path("other.pem"),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:ANONYMOUS",
            "delegation.token.secret.key": "a secret of the brokers",
        }
        users = " ".join(f'user_{name}="{secret}"' for name, secret in PASSWORDS.items())
        modules = {
            "plain": f"{PLAIN_MODULE} required {users};",
            "scram-sha-256": f"{SCRAM_MODULE} required;",
            "scram-sha-512": f"{SCRAM_MODULE} required;",
            "oauthbearer": f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="x";',
        }
        for name, protocol in _LISTENERS.items():
            if protocol.startswith("SASL"):
                for mechanism, module in modules.items():
                    key = f"listener.name.{name.lower()}.{mechanism}.sasl.jaas.config"
                    settings[key] = module
        return settings

    def prepare(self) -> None:
        """Give the running broker users, rules and tokens."""
        with Cluster(self.bootstrap("PLAINTEXT")) as admin:
            upsertions = [
                AlterUserScramCredentialsRequestUpsertion(
                    name=user,
                    mechanism=number,
                    iterations=MIN_ITERATIONS,
                    salt=user.encode(),
                    salted_password=salted_password(number, secret, user.encode(), MIN_ITERATIONS),
                )
                for user, secret in PASSWORDS.items()
                for number in NUMBERS.values()
            ]
            # A request changes each user once.
            for request in (upsertions[::2], upsertions[1::2]):
                altered = admin.call_any(
                    AlterUserScramCredentialsRequest(deletions=[], upsertions=request),
                    AlterUserScramCredentialsResponse,
                )
                assert not any(each.error_code for each in altered.results), altered
            rules = creation_request([parse_acl(each) for each in RULES])
            created = admin.call_any(rules, CreateAclsResponse)
            assert not any(each.error_code for each in created.results), created
        for user in PASSWORDS:
            security = security_of(self.client_properties(Way("SASL_SSL", "PLAIN"), user))
            with Cluster(self.bootstrap("SASL_SSL"), security=security) as cluster:
                made = cluster.call_any(
                    CreateDelegationTokenRequest(
                        owner_principal_type=None,
                        owner_principal_name=None,
                        renewers=[],
                        max_lifetime_ms=-1,
                    ),
                    CreateDelegationTokenResponse,
                )
            assert not made.error_code, made
            self.tokens[user] = made.token_id, b64encode(made.hmac).decode()

    # --- clients ----------------------------------------------------------------------------------

    def client_properties(self, way: Way, user: str, password: str | None = None) -> dict[str, str]:
        """Return the properties of a client of Kafka's own.

        Args:
            way: how it is connected.
            user: who it is.
            password: another password than that of the user; for OAUTHBEARER any other one means
                a token that is not valid.
        """
        properties = {"security.protocol": way.protocol}
        if way.protocol.endswith("SSL"):
            properties["ssl.truststore.type"] = "PEM"
            properties["ssl.truststore.location"] = self.authority
        if not way.mechanism:
            properties["ssl.keystore.type"] = "PEM"
            properties["ssl.keystore.location"] = self.path(f"{user}.pem")
            return properties
        login = password or PASSWORDS[user]
        if way.mechanism == TOKEN:
            name, secret = self.tokens[user]
            options = f'username="{name}" password="{password or secret}" tokenauth="true"'
            mechanism, module = "SCRAM-SHA-256", SCRAM_MODULE
        elif way.mechanism == "OAUTHBEARER":
            # Without a subject: Kafka's client refuses by itself what has expired.
            claim = "sub" if password is None else "name"
            options = f'unsecuredLoginStringClaim_{claim}="{user}"'
            options += f' unsecuredLoginPrincipalClaimName="{claim}"'
            mechanism, module = way.mechanism, OAUTHBEARER_MODULE
        else:
            options = f'username="{user}" password="{login}"'
            mechanism = way.mechanism
            module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        properties["sasl.mechanism"] = mechanism
        properties["sasl.jaas.config"] = f"{module} required {options};"
        return properties


def oauth_token(user: str, now_s: float, *, is_expired: bool) -> str:
    """Return an unsigned token of a user."""
    return unsecured_token(user, {"exp": now_s - _HOUR_S} if is_expired else {}, now_s)
