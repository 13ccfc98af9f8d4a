"""The settings and files of TLS: what is read, and one sentence for what is wrong."""

import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from coterie.recording.serving import shown_settings
from coterie.server.config.config import Config
from coterie.server.config.described import broker_settings
from coterie.server.config.listeners import Listener, ListenerSettings, SecurityProtocol
from coterie.server.config.sources import ConfigError
from coterie.server.tls.context import TlsContext, make_context
from coterie.server.tls.stores import read_key_store
from tests.unit.server.certificates import SSL, Files, authority, write_certificates


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


def context(*given: str, listener: Listener = SSL) -> TlsContext:
    config = Config.load(given)
    settings = ListenerSettings(config, listener.name)
    return make_context(listener, settings, settings)


def keystore(path: object, *more: str) -> tuple[str, ...]:
    return (f"ssl.keystore.location={path}", *more)


def der(pem: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :])


class TestPem:
    """[security/key-stores]"""

    def test_key_and_certificate_in_one_file(self, files: Files) -> None:
        assert context(*keystore(files.server)).chain == (der(Path(files.server).read_text()),)

    def test_a_chain_behind_the_key(self, files: Files, tmp_path: Path) -> None:
        path = tmp_path / "chain.pem"
        path.write_text(Path(files.server).read_text() + authority().certificate)
        assert context(*keystore(path)).chain[1] == der(authority().certificate)

    def test_in_the_settings(self) -> None:
        issued = authority().issue("inline", ["localhost"])
        found = context(
            f"ssl.keystore.key={issued.key}", f"ssl.keystore.certificate.chain={issued.certificate}"
        )
        assert found.chain == (der(issued.certificate),)

    def test_an_encrypted_key(self, files: Files, tmp_path: Path) -> None:
        path = tmp_path / "encrypted.pem"
        path.write_text(encrypted(files, "secret"))
        assert len(context(*keystore(path, "ssl.key.password=secret")).chain) == 1
        with pytest.raises(ConfigError, match=r"encrypted key\. Give its password in ssl\.key\.p"):
            context(*keystore(path))
        with pytest.raises(ConfigError, match="cannot be read with ssl") as caught:
            context(*keystore(path, "ssl.key.password=planted-secret"))
        assert "planted-secret" not in str(caught.value)

    def test_a_listener_has_files_of_its_own(self, files: Files) -> None:
        found = context(
            "ssl.keystore.location=/nowhere",
            f"listener.name.ssl.ssl.keystore.location={files.server}",
        )
        assert len(found.chain) == 1

    def test_no_copy_of_the_key_is_left(
        self, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        context(*keystore(files.server))
        with pytest.raises(ConfigError):
            context(*keystore(files.authority))
        assert list(tmp_path.iterdir()) == []


def encrypted(files: Files, password: str) -> str:
    data = Path(files.server).read_bytes()
    key = serialization.load_pem_private_key(data, None)
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    return text.decode() + data.decode().partition("-----END PRIVATE KEY-----\n")[2]


class TestPkcs12:
    """[security/key-stores]"""

    def test_a_key_store_whatever_its_name(self, files: Files, tmp_path: Path) -> None:
        data = Path(files.server).read_bytes()
        path = tmp_path / "server.jks"
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"server",
                serialization.load_pem_private_key(data, None),  # type: ignore[arg-type]
                x509.load_pem_x509_certificate(data),
                [x509.load_pem_x509_certificate(authority().certificate.encode())],
                serialization.BestAvailableEncryption(b"changeit"),
            )
        )
        given = keystore(path, "ssl.keystore.type=JKS", "ssl.keystore.password=changeit")
        assert context(*given).chain == (der(data.decode()), der(authority().certificate))
        with pytest.raises(ConfigError, match="cannot be opened with the password of ssl"):
            context(*keystore(path, "ssl.keystore.password=planted-secret"))
        with pytest.raises(ConfigError, match="cannot be opened with the password"):
            context(*keystore(path))

    def test_a_trust_store_of_keytool(self, files: Files, tmp_path: Path) -> None:
        path = tmp_path / "trust.jks"
        keytool(tmp_path, "PKCS12", path, files.authority)
        found = context(
            *keystore(files.server),
            f"ssl.truststore.location={path}",
            "ssl.truststore.password=changeit",
            "ssl.client.auth=required",
        )
        assert [each["serialNumber"] for each in found.context.get_ca_certs()]
        with pytest.raises(ConfigError, match="Name a key store, not a trust store"):
            context(*keystore(path, "ssl.keystore.password=changeit"))

    def test_a_real_jks_names_the_conversion(self, files: Files, tmp_path: Path) -> None:
        path = tmp_path / "real.jks"
        keytool(tmp_path, "JKS", path, files.authority)
        line = f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12"
        with pytest.raises(ConfigError, match=line):
            context(*keystore(path))

    def test_without_the_library(self, tmp_path: Path) -> None:
        path = tmp_path / "store.p12"
        path.write_bytes(b"\x30\x82\x01\x00")
        program = (
            "import sys; sys.modules['cryptography'] = None\n"
            "from coterie.server.config.config import Config\n"
            "from coterie.server.config.listeners import ListenerSettings\n"
            "from coterie.server.tls.stores import read_key_store\n"
            f"config = Config.load(['ssl.keystore.location={path}'])\n"
            "try: read_key_store(ListenerSettings(config, 'SSL'))\n"
            "except Exception as error: print(error)\n"
        )
        found = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert "pip install 'coterie[security]'" in found.stdout
        assert "openssl pkcs12 -in" in found.stdout


def keytool(directory: Path, kind: str, path: Path, certificate: str) -> None:
    """Let keytool write a store with one trusted certificate."""
    if shutil.which("keytool") is None:
        pytest.skip("keytool is not installed, which writes the stores of this test")
    subprocess.run(
        [
            "keytool",
            "-importcert",
            "-noprompt",
            "-file",
            certificate,
            "-keystore",
            path,
            *f"-alias ca -storetype {kind} -storepass changeit".split(),
        ],
        check=True,
        capture_output=True,
        cwd=directory,
    )


def test_secrets_are_not_shown(files: Files) -> None:
    """No log, error or answer has a key or a password."""
    key = Path(files.server).read_text().splitlines()[1]
    given = keystore(files.server, "ssl.key.password=planted", "ssl.truststore.password=planted")
    config = Config.load(
        [*given, "listener.name.ssl.ssl.keystore.password=planted", f"ssl.keystore.key={key}"]
    )
    shown = [*broker_settings(config), *shown_settings(config).items()]
    store = read_key_store(ListenerSettings(Config.load(keystore(files.server)), "SSL"))
    text = repr((shown, store, authority().issue("x")))
    assert "planted" not in text
    assert key not in text
    assert "PRIVATE KEY" not in text


class TestRefused:
    """[security/tls-settings]"""

    @pytest.mark.parametrize(
        ("settings", "text"),
        [
            ((), "ssl.keystore.location is missing: TLS needs a key and a certificate."),
            (keystore("/nowhere"), "/nowhere cannot be read: No such file or directory. Name a f"),
            (keystore("{server}", "ssl.keystore.password=x"), "Remove ssl.keystore.password"),
            (keystore("{authority}"), "has no private key. Put the key in front"),
            (keystore("{key}"), "has no certificate. Add it"),
            (keystore("{other}"), "the first certificate is not that of the key"),
            (keystore("{text}"), "is neither a PEM nor a PKCS12 file"),
            (keystore("{broken}"), "OpenSSL cannot use key and certificates"),
            (("ssl.keystore.key=x",), "ssl.keystore.certificate.chain is missing: ssl.keystore.k"),
            (
                keystore("{server}", "ssl.keystore.key=x", "ssl.keystore.certificate.chain=x"),
                "both give a key; give one of them",
            ),
            (
                keystore("{server}", "ssl.client.auth=required"),
                "required needs certificates that are trusted. Name them in ssl.truststore.loc",
            ),
            (
                keystore("{server}", "ssl.client.auth=requested", "ssl.truststore.location={text}"),
                "is neither a PEM nor a PKCS12 file",
            ),
            (
                keystore(
                    "{server}",
                    "ssl.client.auth=requested",
                    "ssl.truststore.location={authority}",
                    "ssl.truststore.password=x",
                ),
                "Remove ssl.truststore.password",
            ),
            (
                keystore("{server}", "ssl.enabled.protocols=TLSv1.1"),
                "TLSv1.1 is not served. Name TLSv1.2 or TLSv1.3.",
            ),
            (
                keystore("{server}", "ssl.enabled.protocols=TLSv1.3", "ssl.protocol=TLSv1.2"),
                "no version of TLS is left",
            ),
            (
                keystore("{server}", "ssl.cipher.suites=TLS_RSA_WITH_NULL_MD5X"),
                "TLS_RSA_WITH_NULL_MD5X is no cipher suite of OpenSSL",
            ),
        ],
    )
    def test_one_sentence_and_a_remedy(
        self, files: Files, tmp_path: Path, settings: tuple[str, ...], text: str
    ) -> None:
        server, alice = Path(files.server).read_text(), Path(files.alice).read_text()
        key, _, certificate = server.partition("-----BEGIN CERTIFICATE")
        made = {
            "key": key,
            "other": alice.partition("-----BEGIN CERT")[0] + f"-----BEGIN CERTIFICATE{certificate}",
            "text": "hello",
            "broken": server.replace("A", "B", 9),
        }
        for name, content in made.items():
            (tmp_path / name).write_text(content)
        paths = {name: tmp_path / name for name in made} | files._asdict()
        with pytest.raises(ConfigError) as caught:
            context(*(each.format(**paths) for each in settings))
        assert text in str(caught.value)

    def test_client_auth_of_a_listener_with_sasl_is_its_own(self, files: Files) -> None:
        """[security/client-certificates]"""
        listener = SSL._replace(name="SASL_SSL", protocol=SecurityProtocol.SASL_SSL)
        given = keystore(
            files.server, "ssl.client.auth=required", f"ssl.truststore.location={files.authority}"
        )
        assert context(*given, listener=listener).context.verify_mode is ssl.CERT_NONE
        own = "listener.name.sasl_ssl.ssl.client.auth=required"
        found = context(*given, own, listener=listener)
        assert found.context.verify_mode is ssl.CERT_REQUIRED
