"""Settings by which a broker asks for less than it seems to [security/weak-settings]."""

import pytest

from coterie.server.config.config import Config
from coterie.server.config.listeners import client_listeners
from coterie.server.config.weaknesses import weaknesses

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
OAUTH = "sasl.enabled.mechanisms=OAUTHBEARER\nlisteners="
PLAIN = "sasl.enabled.mechanisms=PLAIN\nlisteners="


def found(properties: str) -> list[str]:
    config = Config.load([], {}, properties, "file")
    return list(weaknesses(config, client_listeners(config)))


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        (f"{PLAIN}SASL_PLAINTEXT://192.0.2.1:1", "PLAIN without TLS"),
        (
            "sasl.enabled.mechanisms=OAUTHBEARER\nlisteners=SASL_SSL://192.0.2.1:1",
            "nobody has signed",
        ),
        (f"{AUTHORIZER}super.users=User:admin; User:ANONYMOUS", "super.users has User:ANONYMOUS"),
        (f"{AUTHORIZER}allow.everyone.if.no.acl.found=true", "open to everybody"),
    ],
)
def test_each_has_a_sentence(properties: str, word: str) -> None:
    (sentence,) = found(properties)
    assert word in sentence


@pytest.mark.parametrize(
    "properties",
    [
        "",
        f"{PLAIN}SASL_PLAINTEXT://127.0.0.1:1",
        f"{PLAIN}SASL_SSL://192.0.2.1:1",
        "sasl.enabled.mechanisms=SCRAM-SHA-512\nlisteners=SASL_PLAINTEXT://192.0.2.1:1",
        f"{AUTHORIZER}super.users=User:admin",
        "super.users=User:ANONYMOUS\nallow.everyone.if.no.acl.found=true",
    ],
)
def test_others_have_none(properties: str) -> None:
    assert found(properties) == []
