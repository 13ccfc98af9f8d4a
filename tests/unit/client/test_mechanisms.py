"""SASL mechanisms on the client's side, against the examples of the RFCs and wrong brokers.

Rules: [client/mechanisms].
"""

import hashlib
import hmac
import json
from base64 import b64decode, b64encode, urlsafe_b64decode

import pytest

from coterie.client.mechanisms import (
    MECHANISMS,
    Credentials,
    MechanismFailed,
    oauthbearer,
    plain,
    scram,
    unsecured_token,
)

# The exchange in RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
VERDICT = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
USER = Credentials("SCRAM-SHA-256", "user", "pencil")


def test_scram_exchange_of_the_rfc() -> None:
    tokens = scram(USER, 1, NONCE)
    assert next(tokens) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert tokens.send(CHALLENGE) == FINAL
    with pytest.raises(StopIteration):
        tokens.send(VERDICT)


def test_scram_with_sha_512_proves_the_password() -> None:
    tokens = scram(Credentials("SCRAM-SHA-512", "u", "secret"), 2, "abc")
    first = next(tokens).removeprefix(b"n,,")
    challenge = b"r=abcdef,s=" + b64encode(b"salt") + b",i=4096"
    final = tokens.send(challenge).decode()
    without_proof, proof = final.rsplit(",p=", 1)
    signed = b",".join((first, challenge, without_proof.encode()))
    salted = hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 4096)
    stored = hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()
    # What a broker does: the proof without the signature must hash to the stored key.
    signature = hmac.digest(stored, signed, "sha512")
    client_key = bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True))
    assert hashlib.sha512(client_key).digest() == stored


def test_name_is_escaped_and_a_delegation_token_says_so() -> None:
    credentials = Credentials("SCRAM-SHA-256", "a=b,c", "hmac", is_token=True)
    assert next(scram(credentials, 1, "x")) == b"n,,n=a=3Db=2Cc,r=x,tokenauth=true"


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (CHALLENGE.replace(b"r=rOpr", b"r=other"), "nonce"),
        (b"r=" + NONCE.encode() + b",s=W22Z,i=4096", "nonce"),
        (CHALLENGE.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=100000000"), "100000000 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=x"), "malformed"),
        (CHALLENGE.replace(b"s=W22", b"s=*"), "malformed"),
        (b"", "malformed"),
    ],
)
def test_wrong_challenge_is_refused(challenge: bytes, reason: str) -> None:
    tokens = scram(USER, 1, NONCE)
    next(tokens)
    with pytest.raises(MechanismFailed, match=reason):
        tokens.send(challenge)


@pytest.mark.parametrize("verdict", [b"", b"e=invalid-proof", VERDICT.replace(b"6rri", b"7rri")])
def test_broker_that_does_not_know_the_password_is_refused(verdict: bytes) -> None:
    tokens = scram(USER, 1, NONCE)
    next(tokens)
    tokens.send(CHALLENGE)
    with pytest.raises(MechanismFailed, match="has not proved"):
        tokens.send(verdict)


def test_nonces_differ() -> None:
    for name in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert next(MECHANISMS[name](USER)) != next(MECHANISMS[name](USER))


def test_plain_has_one_token() -> None:
    tokens = plain(Credentials("PLAIN", "jörg", "päss"))
    assert next(tokens) == "\0jörg\0päss".encode()
    with pytest.raises(StopIteration):
        tokens.send(b"")


def test_oauthbearer_has_the_token_and_reads_a_refusal() -> None:
    tokens = oauthbearer(Credentials("OAUTHBEARER", "", "a.b.c"))
    assert next(tokens) == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    with pytest.raises(MechanismFailed, match="invalid_token"):
        tokens.send(b'{"status":"invalid_token"}')


def test_unsecured_token_has_its_claims() -> None:
    header, body, signature = unsecured_token("carol", {"scope": "x"}, 100.0009).split(".")
    decoded = [json.loads(urlsafe_b64decode(part + "==")) for part in (header, body)]
    assert decoded == [
        {"alg": "none"},
        {"sub": "carol", "iat": 100.0, "exp": 3700.0, "scope": "x"},
    ]
    assert signature == ""


def test_secrets_are_not_in_texts() -> None:
    assert "pencil" not in repr(USER)
