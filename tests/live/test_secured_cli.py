"""Commands, the pipeline, checks and replays against a secured broker, by client properties.

Rules: [client/tls].
"""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from coterie.address import Address
from coterie.client.client_properties import security_of
from coterie.client.cluster import Cluster
from coterie.client.errors import LoginFailed
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
)
from coterie.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from coterie.security.scram import MIN_ITERATIONS, salted_password
from coterie.server.config.listeners import Listener, SecurityProtocol
from coterie.storage.properties import properties_text, read_properties
from tests.unit.cli.command import rows_of, run
from tests.unit.server.certificates import Files, write_certificates
from tests.unit.server.running import RunningBroker

# One worker prepares what its tests share.
pytestmark = [pytest.mark.live, pytest.mark.xdist_group("secured command line")]

_PASSWORD = "open sesame"
_NAME = "listener.name.sasl_ssl."


class Secured:
    """A broker with a SASL_SSL listener, and properties of its users."""

    def __init__(self, broker: RunningBroker, files: Files, directory: Path) -> None:
        self.broker = broker
        self.files = files
        self._directory = directory

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.broker.address.port}"

    def properties(self, mechanism: str, password: str = _PASSWORD, **more: str) -> str:
        """Write the properties of a client; return the path."""
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        user = f'username="alice" password="{password}"'
        if "token" in more:
            user = f'username="{more.pop("token")}" password="{password}" tokenauth="true"'
        values = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": self.files.authority,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{module} required {user};",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        path = self._directory / f"{secrets.token_hex(4)}.properties"
        path.write_text(properties_text(values))
        return str(path)

    def cluster(self, path: str) -> Cluster:
        security = security_of(read_properties(Path(path).read_text()))
        return Cluster(self.bootstrap, security=security)

    def command(self, *arguments: str, properties: str) -> Result:
        given = ("--bootstrap-server", self.bootstrap, "--command-config", properties)
        return run(None, *arguments, *given)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    files = write_certificates(directory)
    users = f'{PLAIN_MODULE} required user_alice="{_PASSWORD}";'
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        _NAME + "plain.sasl.jaas.config": users,
        _NAME + "scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        _NAME + "scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "ssl.keystore.location": files.server,
        "delegation.token.secret.key": "a secret of the brokers",
        "connection.failed.authentication.delay.ms": "0",
    }
    listener = Listener(Address("127.0.0.1", 0), "SASL_SSL", SecurityProtocol.SASL_SSL)
    with RunningBroker(settings, listeners=[listener]) as broker:
        yield Secured(broker, files, directory)


def test_commands_log_in(secured: Secured) -> None:
    properties = secured.properties("PLAIN")
    created = secured.command("topics", "create", "sales", properties=properties)
    assert created.exit_code == 0, created.stderr
    listed = secured.command("topics", "list", properties=properties)
    assert "sales" in listed.stdout


@pytest.mark.parametrize(("number", "mechanism"), [(1, "SCRAM-SHA-256"), (2, "SCRAM-SHA-512")])
def test_scram_user_logs_in(secured: Secured, number: int, mechanism: str) -> None:
    salt = secrets.token_bytes(16)
    upsertion = AlterUserScramCredentialsRequestUpsertion(
        name="alice",
        mechanism=number,
        iterations=MIN_ITERATIONS,
        salt=salt,
        salted_password=salted_password(number, "other", salt, MIN_ITERATIONS),
    )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
    with secured.cluster(secured.properties("PLAIN")) as cluster:
        answer = cluster.call_any(request, AlterUserScramCredentialsResponse)
    assert [each.error_code for each in answer.results] == [ErrorCode.NONE]
    result = secured.command("groups", "list", properties=secured.properties(mechanism, "other"))
    assert result.exit_code == 0, result.stderr
    refused = f"invalid credentials with SASL mechanism {mechanism}"
    with (
        secured.cluster(secured.properties(mechanism, "wrong")) as cluster,
        pytest.raises(LoginFailed, match=refused),
    ):
        cluster.metadata(None)


def test_delegation_token_from_its_creation_to_its_end(secured: Secured) -> None:
    properties = secured.properties("PLAIN")
    made = rows_of(
        secured.command(
            *("tokens", "create", "--renewer", "User:bob", "--lifetime", "7d", "--json"),
            properties=properties,
        )
    )
    token_id, password = made["token_id"], made["hmac"]
    assert (made["owner"], made["requester"], made["renewers"]) == (
        "User:alice",
        "User:alice",
        ["User:bob"],
    )
    by_token = secured.properties("SCRAM-SHA-256", password, token=token_id)
    assert secured.command("topics", "list", properties=by_token).exit_code == 0
    listed = secured.command("tokens", "list", "User:alice", properties=properties)
    assert token_id in listed.stdout
    assert password not in listed.stdout
    renewed = rows_of(
        secured.command(
            *("tokens", "renew", token_id, "--for", "2h", "--json"), properties=properties
        )
    )
    assert renewed["expires"] < made["expires"]
    ended = secured.command("tokens", "expire", token_id, properties=properties)
    assert ended.stdout == f"{token_id} has ended.\n"
    refused = secured.command("topics", "list", properties=by_token)
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in refused.stderr
    again = secured.command("tokens", "expire", token_id, properties=properties)
    assert again.exit_code == 1
    assert f"There is no token {token_id} that this user may see" in again.stderr


def test_wrong_password_is_an_error_with_the_brokers_text(secured: Secured) -> None:
    result = secured.command("groups", "list", properties=secured.properties("PLAIN", "guess"))
    assert result.exit_code == 1
    assert "Authentication failed: Invalid username or password" in result.stderr
    assert "guess" not in result.stderr


def test_certificate_of_an_unknown_authority_is_refused(secured: Secured) -> None:
    properties = secured.properties("PLAIN", ssl_truststore_location=secured.files.untrusted)
    result = secured.command("groups", "list", properties=properties)
    assert result.exit_code == 1
    assert "The certificate of the broker" in result.stderr
    assert "ssl.truststore.location" in result.stderr


def test_host_name_is_checked(secured: Secured) -> None:
    given = ("--bootstrap-server", f"0.0.0.0:{secured.broker.address.port}")
    checked, unchecked = (
        run(None, "topics", "list", *given, "--command-config", path)
        for path in (
            secured.properties("PLAIN"),
            secured.properties("PLAIN", ssl_endpoint_identification_algorithm=""),
        )
    )
    assert "certificate is not valid for '0.0.0.0'" in checked.stderr
    assert unchecked.exit_code == 0, unchecked.stderr


def test_plaintext_client_is_told_of_the_properties(secured: Secured) -> None:
    result = run(None, "topics", "list", "--bootstrap-server", secured.bootstrap)
    assert result.exit_code == 1
    assert "needs --command-config FILE" in result.stderr


def test_checks_log_in(secured: Secured) -> None:
    given = (secured.bootstrap, "--command-config", secured.properties("PLAIN"))
    result = run(None, "check", *given, "--only", "heartbeat/*", "--json")
    assert result.exit_code == 0, result.stderr or result.stdout[:2000]


def test_pipeline_reads_a_secured_cluster(secured: Secured, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")
    properties = secured.properties("PLAIN")
    # The search for a coordinator creates the topic that is read.
    secured.command("groups", "describe", "billing", properties=properties)
    result = run(
        None,
        *("pipeline", "run", "--input", f"kafka://{secured.bootstrap}", "--engine", "local"),
        *("--output", str(tmp_path / "out"), "--command-config", properties),
    )
    assert result.exit_code == 0, result.stderr
    assert os.path.exists(tmp_path / "out" / "manifest.json")
