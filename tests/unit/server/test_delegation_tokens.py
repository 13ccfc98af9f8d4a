"""Delegation tokens: who may ask, what is stored, logins with them.

Rules: [security/delegation-tokens], [security/times-of-credentials].
"""

import hmac
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestRenewer,
    CreateDelegationTokenResponse,
)
from coterie.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenRequestOwner,
)
from coterie.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from coterie.security.mechanisms import Mechanism
from coterie.server.handlers import delegation_tokens
from tests.unit.security.test_scram import proof
from tests.unit.server.logins import LISTENERS, SETTINGS, LoginClient, StoppedClock, sasl_broker
from tests.unit.server.manual import COMMIT
from tests.unit.server.running import RunningBroker

ENABLED = {"delegation.token.secret.key": "planted-secret"}
DAY_MS = 86_400_000


@pytest.fixture
def running() -> Iterator[RunningBroker]:
    with sasl_broker(ENABLED) as broker:
        yield broker
        assert "planted-secret" not in str(broker.log.lines)


def user(running: RunningBroker, name: str = "alice") -> LoginClient:
    client = LoginClient(running)
    client.handshake()
    token = f"\0{name}\0{name}-secret".encode()
    assert client.authenticate(token).error_code == 0
    return client


def create(client: LoginClient, **fields: Any) -> CreateDelegationTokenResponse:
    fields = {"renewers": [], "max_lifetime_ms": -1, **fields}
    answer: CreateDelegationTokenResponse = client.call(CreateDelegationTokenRequest(**fields), 3)
    return answer


def renewer(name: str, kind: str = "User") -> CreateDelegationTokenRequestRenewer:
    return CreateDelegationTokenRequestRenewer(principal_type=kind, principal_name=name)


def renew(client: LoginClient, token: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = client.call(RenewDelegationTokenRequest(hmac=token, renew_period_ms=period_ms), 2)
    return answer.error_code, answer.expiry_timestamp_ms


def expire(client: LoginClient, token: bytes, period_ms: int = -1) -> tuple[int, int]:
    request = ExpireDelegationTokenRequest(hmac=token, expiry_time_period_ms=period_ms)
    answer = client.call(request, 2)
    return answer.error_code, answer.expiry_timestamp_ms


def described(client: LoginClient, *owners: str) -> list[Any]:
    named = [
        DescribeDelegationTokenRequestOwner(principal_type="User", principal_name=name)
        for name in owners
    ]
    answer = client.call(DescribeDelegationTokenRequest(owners=named or None), 3)
    assert answer.error_code == 0
    tokens: list[Any] = answer.tokens
    return tokens


def log_in(
    client: LoginClient, token: CreateDelegationTokenResponse, mechanism: Mechanism
) -> tuple[int, int]:
    """Log in with a token; return the error and the lifetime of the session."""
    assert client.handshake(mechanism.value).error_code == 0
    bare = f"n={token.token_id},r=abc,tokenauth=true"
    first = client.authenticate(f"n,,{bare}".encode()).auth_bytes.decode()
    final = f"c=biws,{first.split(',')[0]}"
    signed = proof(mechanism, b64encode(token.hmac).decode(), bare, first, final)
    answer = client.authenticate(f"{final},p={signed}".encode())
    return answer.error_code, answer.session_lifetime_ms


def test_a_token_is_created_and_described(running: RunningBroker) -> None:
    with user(running) as client:
        token = create(client, renewers=[renewer("bob")])
        assert token.error_code == 0
        assert (token.principal_name, token.token_requester_principal_name) == ("alice", "alice")
        assert token.hmac == hmac.digest(b"planted-secret", token.token_id.encode(), "sha512")
        assert token.expiry_timestamp_ms - token.issue_timestamp_ms == DAY_MS
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 7 * DAY_MS
        (found,) = described(client, "alice")
        assert (found.token_id, found.hmac) == (token.token_id, token.hmac)
        assert [each.principal_name for each in found.renewers] == ["bob"]
        # The tokens that somebody owns, has asked for, or may renew.
        assert [each.token_id for each in described(client, "bob")] == [token.token_id]
        assert described(client, "carol") == []
        short = create(client, max_lifetime_ms=1_000)
        assert short.max_timestamp_ms - short.issue_timestamp_ms == 1_000
        assert short.expiry_timestamp_ms == short.max_timestamp_ms
        other = create(client, owner_principal_type="User", owner_principal_name="bob")
        assert (other.principal_name, other.token_requester_principal_name) == ("bob", "alice")
        assert len(described(client)) == len(described(client, "alice")) == 3


@pytest.mark.parametrize("mechanism", [Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512])
def test_a_token_logs_its_owner_in_until_it_is_deleted(
    running: RunningBroker, mechanism: Mechanism
) -> None:
    with user(running) as owner, LoginClient(running) as client:
        token = create(owner)
        error, lifetime_ms = log_in(client, token, mechanism)
        assert error == 0
        assert DAY_MS - 60_000 < lifetime_ms <= DAY_MS
        # A login with a token may ask for nothing about tokens.
        assert create(client).error_code == 64
        assert renew(client, token.hmac) == (64, -1)
        assert expire(owner, token.hmac)[0] == 0
        assert expire(owner, token.hmac) == (62, 0)
        assert client.call(MetadataRequest(topics=None), 9).brokers
        with LoginClient(running) as late:
            assert log_in(late, token, mechanism)[0] == 58


def test_owner_and_renewers_change_the_expiry(running: RunningBroker) -> None:
    with user(running) as alice, user(running, "bob") as bob:
        token = create(alice, renewers=[renewer("bob")])
        now_ms = token.issue_timestamp_ms
        for period_ms in (DAY_MS // 2, 2 * DAY_MS, -1):
            error, expires_ms = renew(bob, token.hmac, period_ms)
            assert error == 0
            # By no more than delegation.token.expiry.time.ms.
            expected_ms = DAY_MS // 2 if period_ms == DAY_MS // 2 else DAY_MS
            assert 0 <= expires_ms - now_ms - expected_ms < 60_000
        short = create(alice, max_lifetime_ms=60_000)
        assert renew(alice, short.hmac, DAY_MS) == (0, short.max_timestamp_ms)
        assert renew(alice, b"unknown") == (62, 0)
        own = create(alice)
        assert renew(bob, own.hmac) == (63, 0)
        assert expire(bob, own.hmac) == (63, 0)
        assert expire(bob, token.hmac, 0)[0] == 0
        time.sleep(0.01)
        assert renew(bob, token.hmac) == (66, 0)
        with LoginClient(running) as late:
            assert log_in(late, token, Mechanism.SCRAM_SHA_256)[0] == 58
        # It is removed with the next change.
        create(alice)
        assert renew(bob, token.hmac) == (62, 0)


def test_times_are_those_of_the_machine_after_it_has_slept() -> None:
    clock, slept_ms = StoppedClock(), 8 * 3_600_000
    wall_ms = clock() + slept_ms
    with sasl_broker(ENABLED, clock, slept_ms) as running, user(running) as owner:
        token = create(owner)
        assert (token.issue_timestamp_ms, token.expiry_timestamp_ms) == (wall_ms, wall_ms + DAY_MS)
        assert renew(owner, token.hmac, 1000) == (0, wall_ms + 1000)
        with LoginClient(running) as client:
            assert log_in(client, token, Mechanism.SCRAM_SHA_256) == (0, 1000)
        clock.now_ms += 1001
        with LoginClient(running) as client:
            assert log_in(client, token, Mechanism.SCRAM_SHA_256)[0] == 58
        assert renew(owner, token.hmac) == (66, 0)
        assert expire(owner, token.hmac, 0) == (66, 0)


def test_who_may_not_ask(running: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    with user(running) as client:
        assert create(client, renewers=[renewer("x", "Group")]).error_code == 67
        refused = create(client, renewers=[renewer("x", "Group")])
        assert (refused.expiry_timestamp_ms, refused.max_timestamp_ms) == (-1, -1)
        monkeypatch.setattr(delegation_tokens, "MOST_TOKENS", 0)
        assert create(client).error_code == 44
    with sasl_broker() as without, user(without) as client:
        assert create(client).error_code == 61
        assert create(client, renewers=[renewer("x", "Group")]).error_code == 67
        assert renew(client, b"x") == (61, -1)
        assert expire(client, b"x") == (61, -1)
        answer = client.call(DescribeDelegationTokenRequest(owners=None), 3)
        assert (answer.error_code, answer.tokens) == (61, [])


def test_tokens_outlive_a_restart(tmp_path: Path) -> None:
    settings = {**SETTINGS, **ENABLED}
    tokens = []
    for _ in range(2):
        with RunningBroker(
            settings, data_dir=str(tmp_path), flush=COMMIT, listeners=LISTENERS
        ) as running:
            with user(running) as client:
                tokens.append(create(client))
                assert len(described(client)) == len(tokens)
            with LoginClient(running) as client:
                assert log_in(client, tokens[0], Mechanism.SCRAM_SHA_512)[0] == 0
