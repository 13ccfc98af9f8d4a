"""OAUTHBEARER: what Kafka 4.3.1 accepts and refuses of unsecured tokens.

Rules: [security/oauthbearer].
"""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.security.mechanisms import LoggedIn, LoginFailed
from coterie.security.oauthbearer import (
    OAuthBearerConversation,
    OAuthBearerServer,
    Refused,
    UnsecuredTokens,
)

NOW_MS = 1_000_000_000
VALID: dict[str, Any] = {"sub": "alice", "exp": 1_000_060, "iat": 999_999}
REFUSED = b'{"status":"invalid_token"}'


def part(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def token(claims: Any = VALID, header: Any = None, signature: str = "") -> str:
    return f"{part({'alg': 'none'} if header is None else header)}.{part(claims)}.{signature}"


def begun(**options: Any) -> OAuthBearerConversation:
    return OAuthBearerServer(UnsecuredTokens(**options)).begin(b"")


def message(text: str, extra: str = "", header: str = "n,,") -> bytes:
    return f"{header}\x01auth=Bearer {text}\x01{extra}\x01".encode()


def test_a_token_logs_its_user_in_until_it_expires() -> None:
    assert begun().step(message(token()), NOW_MS) == (b"", LoggedIn("alice", 1_000_060_000))
    extra = "host=x\x01ext=some value\x01"
    assert begun().step(message(token(), extra), NOW_MS).who is not None
    assert begun().step(message(token(), "", "n,a=alice,"), NOW_MS).who is not None
    assert begun().step(message(token()).replace(b"Bearer", b"bearer"), NOW_MS).who is not None


@pytest.mark.parametrize(
    "text",
    [
        token(VALID | {"exp": 999_999}),
        token({"sub": "alice"}),
        token({"exp": 1_000_060}),
        token(VALID | {"sub": 7}),
        token(VALID | {"sub": " "}),
        token(VALID | {"exp": "1000060"}),
        token(VALID | {"exp": True}),
        token(VALID | {"exp": float("inf")}),
        token(VALID | {"iat": 1_000_001}),
        token(VALID | {"iat": "x"}),
        token(VALID | {"iat": 1_000_060}),
        token(["sub"]),
        token(header={"alg": "HS256"}),
        token(header={"alg": "None"}),
        token(header={}),
        token(signature="c2ln"),
        "a.b",
        "a.b.c.d",
        "!!.!!.",
        token().replace(".", ""),
    ],
)
def test_other_tokens_are_refused_in_two_steps(text: str) -> None:
    conversation = begun()
    if "!" in text:
        text = text.replace("!", "-")
    assert conversation.step(message(text), NOW_MS) == (REFUSED, None)
    with pytest.raises(LoginFailed) as failed:
        conversation.step(b"\x01", NOW_MS)
    assert failed.value.text == REFUSED.decode()
    conversation = begun()
    conversation.step(message(text), NOW_MS)
    with pytest.raises(LoginFailed) as failed:
        conversation.step(message(token()), NOW_MS)
    assert failed.value.text is None


def test_options_of_the_validator() -> None:
    late = message(token(VALID | {"exp": 999_990, "iat": 999_900}))
    assert begun().step(late, NOW_MS).token == REFUSED
    # The session ends at once.
    assert begun(skew_ms=15_000).step(late, NOW_MS).who == LoggedIn("alice", 999_990_000)
    named = message(token(VALID | {"user": "bob", "roles": ["a", "b"]}))
    options = {"principal_claim": "user", "scope_claim": "roles"}
    who = begun(**options, required_scope=("a",)).step(named, NOW_MS).who
    assert who == LoggedIn("bob", 1_000_060_000)
    assert begun(**options, required_scope=("c",)).step(named, NOW_MS).token == REFUSED


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer a.b.\x01",
        b"y,,\x01auth=Bearer a.b.\x01\x01",
        b"n,,\x01auth=Bearer a.b.\x01auth=Bearer a.b.\x01\x01",
        b"n,,\x01auth=Bearer a.b.\x01e1=x\x01\x01",
        b"\xff",
    ],
)
def test_a_malformed_message_fails_without_a_cause(first: bytes) -> None:
    with pytest.raises(LoginFailed) as failed:
        begun().step(first, NOW_MS)
    assert failed.value.text is None


def test_another_user_than_that_of_the_token() -> None:
    with pytest.raises(LoginFailed) as failed:
        begun().step(message(token(), "", "n,a=bob,"), NOW_MS)
    assert failed.value.text == (
        "Authentication failed: Client requested an authorization id (bob) that is different from"
        " the token's principal name (alice)"
    )


@given(st.text(alphabet=st.characters(codec="ascii")))
def test_garbage_is_refused_and_raises_nothing_else(text: str) -> None:
    with pytest.raises(Refused):
        UnsecuredTokens().validate(text, NOW_MS)


def test_deep_json_is_refused() -> None:
    deep = urlsafe_b64encode(b"[" * 100_000).decode()
    with pytest.raises(Refused):
        UnsecuredTokens().validate(f"{deep}.{deep}.", NOW_MS)
