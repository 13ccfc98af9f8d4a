"""Requests about ACLs, logins, tokens, credentials and voters; Kafka 4.3.1's answers."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_raft_voter import AddRaftVoterRequest
from coterie.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
)
from coterie.protocol.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from coterie.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from coterie.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from coterie.protocol.messages.describe_acls import DescribeAclsRequest
from coterie.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from coterie.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUser,
)
from coterie.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from coterie.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from coterie.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from coterie.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest
from coterie.protocol.messages.unregister_broker import UnregisterBrokerRequest
from coterie.protocol.wire import ZERO_UUID
from tests.unit.server.manual import Client, make_broker

SOME_ID = bytes(range(16))


@pytest.fixture
def client() -> Client:
    return Client(make_broker())


class TestAcls:
    """[security/no-authorizer]"""

    def test_describe(self, client: Client) -> None:
        request = DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        answer = client.call(request, 3)
        assert answer.error_code == ErrorCode.SECURITY_DISABLED
        assert answer.error_message == "No Authorizer is configured on the broker"

    def test_create_and_delete_answer_for_each_entry(self, client: Client) -> None:
        rule = CreateAclsRequestCreation(
            resource_type=2,
            resource_name="orders",
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        )
        created = client.call(CreateAclsRequest(creations=[rule, rule]), 1).results
        any_rule = DeleteAclsRequestFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        deleted = client.call(DeleteAclsRequest(filters=[any_rule, any_rule]), 3).filter_results
        expected = [(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")] * 2
        for results in (created, deleted):
            assert [(each.error_code, each.error_message) for each in results] == expected


def test_there_is_nothing_to_log_in_to(client: Client) -> None:
    """[security/no-login]"""
    handshake = client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert (handshake.error_code, handshake.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    step = client.call(SaslAuthenticateRequest(auth_bytes=b"x"), 2)
    assert step.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert step.error_message == (
        "SaslAuthenticate request received after successful authentication"
    )


def test_delegation_tokens_are_not_allowed(client: Client) -> None:
    """[security/delegation-tokens]"""
    requests: list[tuple[Any, int]] = [
        (RenewDelegationTokenRequest(hmac=b"", renew_period_ms=1), 2),
        (ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=1), 1),
        (DescribeDelegationTokenRequest(owners=None), 3),
    ]
    for request, version in requests:
        answer = client.call(request, version)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    for owner, expected in ((None, "ANONYMOUS"), ("bob", "bob")):
        request = CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else "User",
            owner_principal_name=owner,
            renewers=[],
            max_lifetime_ms=-1,
        )
        answer = client.call(request, 3)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (answer.principal_name, answer.expiry_timestamp_ms) == (expected, -1)
        assert answer.token_requester_principal_name == "ANONYMOUS"


class TestScram:
    """[security/scram]"""

    def test_no_user_has_credentials(self, client: Client) -> None:
        answer = client.call(DescribeUserScramCredentialsRequest(users=None), 0)
        assert (answer.error_code, answer.error_message, answer.results) == (0, "", [])
        users = [DescribeUserScramCredentialsRequestUser(name=name) for name in ("x", "y", "y")]
        answer = client.call(DescribeUserScramCredentialsRequest(users=users), 0)
        assert [(each.user, each.error_code, each.error_message) for each in answer.results] == [
            ("x", 91, "Attempt to describe a user credential that does not exist: x"),
            (
                "y",
                92,
                "Cannot describe SCRAM credentials for the same user twice in a single request: y",
            ),
        ]

    @pytest.mark.parametrize(
        ("name", "mechanism", "iterations", "error", "text"),
        [
            ("", 0, 1, 93, "Username must not be empty"),
            ("u", 0, 1, 33, "Unknown SCRAM mechanism"),
            ("u", 1, 4095, 93, "Too few iterations"),
            ("u", 2, 16385, 93, "Too many iterations"),
            (
                "u",
                2,
                4096,
                54,
                "SCRAM credentials are not supported: this broker has no SASL listener.",
            ),
        ],
    )
    def test_an_upsertion_is_refused(
        self, client: Client, name: str, mechanism: int, iterations: int, error: int, text: str
    ) -> None:
        upsertion = AlterUserScramCredentialsRequestUpsertion(
            name=name,
            mechanism=mechanism,
            iterations=iterations,
            salt=b"salt",
            salted_password=b"secret",
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        (result,) = client.call(request, 0).results
        assert (result.user, result.error_code, result.error_message) == (name, error, text)

    def test_a_user_is_altered_once(self, client: Client) -> None:
        upsertions = [
            AlterUserScramCredentialsRequestUpsertion(
                name="twice", mechanism=each, iterations=5000, salt=b"", salted_password=b""
            )
            for each in (1, 2)
        ]
        deletion = AlterUserScramCredentialsRequestDeletion(name="gone", mechanism=1)
        request = AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=upsertions)
        results = client.call(request, 0).results
        assert [(each.user, each.error_code) for each in results] == [("gone", 91), ("twice", 92)]


class TestMembers:
    """[topics/fixed-quorum]"""

    def test_other_brokers_are_not_registered(self, client: Client) -> None:
        answer = client.call(UnregisterBrokerRequest(broker_id=99), 0)
        assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert answer.error_message == "Broker ID 99 is not currently registered"

    def test_this_broker_registers_again(self, client: Client) -> None:
        answer = client.call(UnregisterBrokerRequest(broker_id=1), 0)
        assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
        assert client.call(UnregisterBrokerRequest(broker_id=1), 0).error_code == ErrorCode.NONE

    @pytest.mark.parametrize(
        ("cluster_id", "voter_id", "directory_id", "error", "text"),
        [
            ("other", 2, SOME_ID, 104, 'The given id "other" doesn\'t match the cluster id'),
            (None, -1, SOME_ID, 42, "voter request didn't include a valid voter"),
            (None, 2, ZERO_UUID, 42, "voter request didn't include a valid voter"),
            (None, 2, SOME_ID, 35, " voter because the kraft.version feature is 0"),
        ],
    )
    def test_voters_stay_the_same(
        self,
        client: Client,
        cluster_id: str | None,
        voter_id: int,
        directory_id: bytes,
        error: int,
        text: str,
    ) -> None:
        requests: list[tuple[Any, int]] = [
            (
                AddRaftVoterRequest(
                    cluster_id=cluster_id,
                    timeout_ms=1,
                    voter_id=voter_id,
                    voter_directory_id=directory_id,
                    listeners=[],
                ),
                1,
            ),
            (
                RemoveRaftVoterRequest(
                    cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id
                ),
                0,
            ),
        ]
        for request, version in requests:
            answer = client.call(request, version)
            assert answer.error_code == error
            assert text in answer.error_message
