"""Planted secrets are in no log, recording, error, dump, metric or file where they need not be.

A server has every mechanism, TLS with an encrypted key, delegation tokens, a recording with
payloads, metrics and the control port, and logs everything. Clients log in rightly and wrongly, and
commands do what they can. Then all that came out is searched for each secret in each form.
"""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from coterie.cli.main import main
from coterie.processes.broker import free_port
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from coterie.security.mechanisms import Mechanism
from coterie.storage.properties import properties_text
from tests.attacks.target import PATIENCE_S
from tests.unit.security.test_oauthbearer import message
from tests.unit.security.test_oauthbearer import token as unsigned
from tests.unit.security.test_scram import proof
from tests.unit.server.certificates import authority
from tests.unit.server.logins import LoginClient, frame_of

pytestmark = pytest.mark.live

ALICE, SCRAM, WRONG = "planted-plain-Pw1", "planted-scram-Pw2", "planted-wrong-Pw3"
KEY, OTHER_KEY, TOKENS = "planted-key-Pw4", "planted-key-Pw5", "planted-secret-Pw6"
METRICS = "planted-metrics-Pw7"
IN_URL, IN_JAAS, IN_SEED = "planted-url-Pw9", "planted-jaas-Pw10", "planted-seed-Pw11"
_LISTENER = "listener.name.sasl_plaintext."


class Place:
    """The server, its files, and everything that came out of it and of commands."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data, self.recording = directory / "data", directory / "recording"
        self.log = directory / "log"
        self.secrets: dict[str, bytes] = {
            each: each.encode()
            for each in (
                *(ALICE, SCRAM, WRONG, KEY, OTHER_KEY, TOKENS),
                *(METRICS, IN_URL, IN_JAAS, IN_SEED),
            )
        }
        self.outputs: dict[str, bytes] = {}
        self.metrics_port = 0
        self.ports = {name: free_port() for name in ("SASL_PLAINTEXT", "SASL_SSL")}
        self._write_key()

    def _write_key(self) -> None:
        """Write a key store whose key is encrypted."""
        issued = authority().issue("localhost", ["localhost", "127.0.0.1"])
        key = load_pem_private_key(issued.key.encode(), None)
        encryption = BestAvailableEncryption(KEY.encode())
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        self.store = self.directory / "server.pem"
        self.store.write_bytes(text + issued.certificate.encode())
        self.secrets["private key"] = issued.key.splitlines()[1].encode()

    def settings(self, **changed: str) -> Path:
        """Write the properties of the server; dots of names are written as two underscores."""
        listeners = ",".join(f"{name}://127.0.0.1:{at}" for name, at in self.ports.items())
        plain = f'{PLAIN_MODULE} required user_alice="{ALICE}";'
        oauth = f"{OAUTHBEARER_MODULE} required;"
        values = {
            "listeners": listeners,
            "log.dirs": str(self.data),
            "sasl.enabled.mechanisms": ",".join(each.value for each in Mechanism),
            _LISTENER + "plain.sasl.jaas.config": plain,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
            _LISTENER + "oauthbearer.sasl.jaas.config": oauth,
            "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": oauth,
            _LISTENER + "plain.connections.max.reauth.ms": "3600000",
            "connection.failed.authentication.delay.ms": "0",
            "ssl.keystore.location": str(self.store),
            "ssl.key.password": KEY,
            "delegation.token.secret.key": TOKENS,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:alice",
            "offsets.topic.num.partitions": "1",
            **{name.replace("__", "."): value for name, value in changed.items()},
        }
        path = self.directory / "server.properties"
        path.write_text(properties_text(values))
        return path

    def begin(self, *options: str, **changed: str) -> "subprocess.Popen[bytes]":
        """Start a server whose log goes to a file."""
        command = [sys.executable, "-m", "coterie", "serve", "--log-level", "debug"]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*command, "--properties", str(self.settings(**changed)), *options],
                stdout=log,
                stderr=log,
            )

    def fail_to_serve(self, *options: str, **changed: str) -> None:
        """Start a server that does not come up; what it says is in the log, too."""
        assert self.begin(*options, **changed).wait(PATIENCE_S), (options, changed)

    def command(self, *arguments: str, user: str = "", fails: bool = False) -> str:
        """Run a command as alice, or with another text of JAAS."""
        properties = self.directory / "client.properties"
        jaas = user or f'{PLAIN_MODULE} required username="alice" password="{ALICE}";'
        mechanism = "SCRAM-SHA-512" if SCRAM_MODULE in jaas else "PLAIN"
        values = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
        properties.write_text(properties_text({**values, "sasl.jaas.config": jaas}))
        given = ["--bootstrap-server", f"127.0.0.1:{self.ports['SASL_PLAINTEXT']}"]
        result = CliRunner().invoke(main, [*arguments, *given, "--command-config", str(properties)])
        assert bool(result.exit_code) is fails, result.output
        self.outputs[f"{len(self.outputs)} {' '.join(arguments[:2])}"] = result.output.encode()
        return result.output

    def client(self) -> LoginClient:
        """Return a client that has not logged in."""
        address = "127.0.0.1", self.ports["SASL_PLAINTEXT"]
        return LoginClient(socket.create_connection(address, timeout=PATIENCE_S))

    def found(self) -> list[str]:
        """Return where secrets are, in any of their forms."""
        where = []
        for name, secret in self.secrets.items():
            forms = secret, b64encode(secret).rstrip(b"="), secret.hex().encode(), secret[::-1]
            for place, data in self.outputs.items():
                if any(each in data for each in forms):
                    where.append(f"{name} in {place}")
        return where


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    place.metrics_port = free_port()
    process = place.begin(
        *("--record", str(place.recording), "--record-payloads"),
        *("--metrics-port", str(place.metrics_port), "--metrics-token", METRICS),
    )
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while b"ready on" not in place.log.read_bytes():
            assert process.poll() is None, place.log.read_text()
            assert time.monotonic() < deadline_s, place.log.read_text()
            time.sleep(0.05)
        yield place
    finally:
        process.terminate()
        process.wait()


def log_in_wrongly(place: Place) -> None:
    """Log in with each mechanism in each wrong way, and rightly, too."""
    plain = f"\0alice\0{WRONG}".encode(), f"{WRONG}\0alice\0{ALICE}".encode()
    more = f"\0{WRONG}\0{WRONG}\0{ALICE}".encode(), ALICE.encode(), f"alice\0{ALICE}".encode()
    for token in (*plain, *more):
        place.secrets[f"token {token!r}"] = token
        with place.client() as client:
            client.handshake()
            assert client.authenticate(token).error_code == 58
        with place.client() as client:
            client.handshake(version=0)
            client.socket.sendall(frame_of(token))
            client.rest()
    with place.client() as client:
        client.handshake()
        assert client.authenticate(f"\0alice\0{ALICE}".encode()).error_code == 0
        # A login that is limited in time goes on: this one is read by the connection itself.
        assert client.handshake().error_code == 0
        assert client.authenticate(f"\0alice\0{WRONG}".encode()).error_code == 58
    claims = unsigned({"sub": "alice", "exp": 4e9})
    for bearer in (claims, claims + "planted-signature-Pw12", "planted.not-a.token-Pw13"):
        place.secrets[bearer] = bearer.encode()
        with place.client() as client:
            client.handshake("OAUTHBEARER")
            if client.authenticate(message(bearer)).auth_bytes:
                client.authenticate(b"\1")
            else:
                client.call(MetadataRequest(topics=None), 9)


def log_in_with_scram(place: Place, name: str, password: str, extension: str = "") -> None:
    """Log in with SCRAM, with a password that is right, and then with one that is wrong."""
    mechanism = Mechanism.SCRAM_SHA_512
    for given, error in ((password, 0), (WRONG, 58)):
        with place.client() as client:
            client.handshake(mechanism.value)
            bare = f"n={name},r=abc{extension}"
            first = client.authenticate(f"n,,{bare}".encode()).auth_bytes.decode()
            final = f"c=biws,{first.split(',')[0]}"
            signed = proof(mechanism, given, bare, first, final)
            place.secrets[f"proof {signed[:8]}"] = signed.encode()
            assert client.authenticate(f"{final},p={signed}".encode()).error_code == error


def use_commands(place: Place) -> None:
    """Run the commands that have to do with secrets, and some that print everything."""
    password = place.directory / "password"
    password.write_text(f"{SCRAM}\n")
    place.command("users", "add", "sam", "--password-file", str(password))
    place.command("users", "list", "--json")
    place.command("acls", "add", "User:sam ALLOW ALL TOPIC *")
    place.command("acls", "list", "--json")
    made = json.loads(place.command("tokens", "create", "--owner", "User:alice", "--json"))
    # It is what the command is for.
    place.outputs.popitem()
    place.secrets["HMAC of a token"] = made["hmac"].encode()
    for arguments in (("list", "--json"), ("list",), ("renew", made["token_id"])):
        place.command("tokens", *arguments)
    log_in_with_scram(place, "sam", SCRAM)
    log_in_with_scram(place, made["token_id"], made["hmac"], ",tokenauth=true")
    place.command("tokens", "expire", made["token_id"])
    place.command("topics", "create", "sales")
    for resource in ("brokers", "topics"):
        name = "1" if resource == "brokers" else "sales"
        place.command("configs", "describe", resource, name, "--all")
        place.command("configs", "describe", resource, name, "--all", "--json")
    altered = f"listener.name.sasl_ssl.ssl.key.password={OTHER_KEY}"
    # The key has another password, so that is refused.
    place.command("configs", "alter", "brokers", "1", "--set", altered, fails=True)
    for wrong in (
        f'{PLAIN_MODULE} required username="alice" password="{WRONG}";',
        f'{SCRAM_MODULE} required username="sam" password="{WRONG}";',
        f'{PLAIN_MODULE} required username="alice" password="{IN_JAAS}"',
        f"{PLAIN_MODULE} required username=alice password={IN_JAAS}!;",
    ):
        place.command("topics", "list", user=wrong, fails=True)
    place.command("users", "remove", "sam")


def fail_to_start(place: Place) -> None:
    """Start servers whose settings with secrets are wrong."""
    ports, place.ports = place.ports, {name: free_port() for name in place.ports}
    data, place.data = place.data, place.directory / "other"
    place.fail_to_serve(ssl__key__password=OTHER_KEY)
    for text in (f'{PLAIN_MODULE} required user_alice="{IN_JAAS}"', f"{IN_JAAS} required;"):
        setting = {_LISTENER.replace(".", "__") + "plain__sasl__jaas__config": text}
        place.fail_to_serve(**setting)
    for seed in (f"SCRAM-SHA-1=[name=x,password={IN_SEED}]", f"SCRAM-SHA-256=[password={IN_SEED}]"):
        place.fail_to_serve(f"--add-scram={seed}")
    url = f"http://user:{IN_URL}@127.0.0.1:{free_port()}/keys?token={IN_URL}"
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    place.fail_to_serve(
        sasl__oauthbearer__jwks__endpoint__url=url,
        sasl__server__callback__handler__class=handler,
    )
    place.ports, place.data = ports, data


def take_what_is_there(place: Place) -> None:
    """Take metrics, log, files, and what commands print of these."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{place.metrics_port}/metrics",
        headers={"Authorization": f"Bearer {METRICS}"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        place.outputs["metrics"] = answer.read()
    assert b"coterie" in place.outputs["metrics"]
    for file in (place.recording, *place.data.rglob("*")):
        if file.is_file():
            place.outputs[str(file.relative_to(place.directory))] = file.read_bytes()
    logs = [str(each) for each in place.data.glob("*/*.log")]
    for arguments in (
        ["dump", "security", str(place.data)],
        ["dump", "log", *logs],
        ["replay", str(place.recording)],
        ["replay", str(place.recording), "--to-transcript", "-"],
    ):
        said = CliRunner().invoke(main, arguments, catch_exceptions=False).output
        place.outputs[" ".join(arguments)] = said.encode()
    assert b"UserScramCredential" in place.outputs[f"dump security {place.data}"]
    assert place.outputs[f"replay {place.recording}"]
    place.outputs["log"] = place.log.read_bytes()


def test_secrets_are_nowhere(place: Place) -> None:
    log_in_wrongly(place)
    use_commands(place)
    fail_to_start(place)
    take_what_is_there(place)
    assert b"LoginFailed" in place.outputs["log"]
    assert place.found() == []
    # The search finds what is there.
    place.outputs["properties"] = (place.directory / "server.properties").read_bytes()
    assert len(place.found()) > 3
