"""PLAIN: the texts of Kafka, and nothing that tells users from strangers.

Rules: [security/plain].
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.security.mechanisms import LoggedIn, LoginFailed
from coterie.security.plain import PlainServer

SERVER = PlainServer({"alice": "alice-secret", "bob": "bob-secret", "ünï": "pässwörd"})


def step(token: str) -> LoggedIn | None:
    return SERVER.begin(b"").step(token.encode(), 0).who


@pytest.mark.parametrize(
    "token", ["\0alice\0alice-secret", "alice\0alice\0alice-secret"], ids=["without", "with"]
)
def test_a_user_logs_in(token: str) -> None:
    assert step(token) == LoggedIn("alice")
    assert step("\0ünï\0pässwörd") == LoggedIn("ünï")


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("\0alice\0wrong", "Authentication failed: Invalid username or password"),
        ("\0alice\0bob-secret", "Authentication failed: Invalid username or password"),
        ("\0nobody\0alice-secret", "Authentication failed: Invalid username or password"),
        ("bob\0nobody\0x", "Authentication failed: Invalid username or password"),
        ("\0\0alice-secret", "Authentication failed: username not specified"),
        ("\0alice\0", "Authentication failed: password not specified"),
        ("", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("alice\0alice-secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        ("\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("\0\0\0\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (
            "bob\0alice\0alice-secret",
            (
                "Authentication failed: Client requested an authorization id that is different from"
                " username"
            ),
        ),
    ],
)
def test_failures_have_kafkas_texts(token: str, text: str) -> None:
    with pytest.raises(LoginFailed) as failed:
        step(token)
    assert failed.value.text == text


@given(st.binary(max_size=80))
def test_garbage_fails_and_raises_nothing_else(token: bytes) -> None:
    with pytest.raises(LoginFailed):
        SERVER.begin(b"").step(token, 0)
