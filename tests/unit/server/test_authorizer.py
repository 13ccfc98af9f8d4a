"""The authorizer in a broker: what the table of Kafka's answers does not show."""

from typing import Any

import pytest

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from coterie.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.describe_acls import DescribeAclsRequest
from coterie.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
)
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.list_transactions import ListTransactionsRequest
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.records import Record, encode_records
from coterie.protocol.resources import ResourceType, resources
from coterie.security.acl import Acl, AclFilter, Permission
from coterie.security.acl_messages import creation_request, deletion_request
from coterie.server.authorization.access import STANDARD_AUTHORIZER
from coterie.server.authorization.checks import LOGIN_IS_ENOUGH, check_of
from coterie.server.broker import Broker
from coterie.server.config.sources import ConfigError
from coterie.server.network.routes import Routes
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.unit.server.manual import COMMIT, Client, log_of, logged, loop_of, make_broker, run

SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
ANY = 1
LITERAL = 3
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def secured(**settings: str) -> Broker:
    return make_broker({**SETTINGS, **{k.replace("_", "."): v for k, v in settings.items()}})


def client_of(broker: Broker, user: str) -> Client:
    client = Client(broker)
    client.connection.client = client.connection.client._replace(principal=f"User:{user}")
    return client


def acl(
    operation: AclOperation,
    kind: ResourceType = TOPIC,
    name: str = "t",
    *,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    return Acl(kind, name, LITERAL, "User:alice", "*", operation, permission)


def settle(client: Client, request: Any, version: int) -> Any:
    """Send a request whose response comes in a later turn."""
    sent = client.send(request, version)
    for _ in range(50):
        client.loop.turn()
        answers = client.answers()
        if answers:
            ((correlation_id, answer),) = answers
            assert correlation_id == sent
            return answer
    raise AssertionError("no response")


def allow(broker: Broker, *acls: Acl) -> None:
    """Add rules by a request of the super user."""
    answer = settle(Client(broker), creation_request(acls), 3)
    assert [each.error_code for each in answer.results] == [0] * len(acls)


def forbid(broker: Broker, gone: Acl) -> None:
    """Remove a rule by a request of the super user."""
    one = AclFilter(*gone)
    answer = settle(Client(broker), deletion_request([one, one]), 3)
    # A rule that fits two filters is in both answers.
    assert [len(each.matching_acls) for each in answer.filter_results] == [1, 1]


def create_topic(broker: Broker, *names: str) -> None:
    topics = [
        CreateTopicsRequestTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        for name in names
    ]
    settle(Client(broker), CreateTopicsRequest(topics=topics, timeout_ms=1000), 5)
    assert all(name in broker.topics.by_name for name in names)


def metadata(client: Client, *names: str, create: bool = True) -> dict[str, int]:
    asked = [MetadataRequestTopic(name=name) for name in names] if names else None
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=create)
    return {each.name: each.error_code for each in client.call(request, 9).topics}


class TestRoutes:
    def test_without_an_authorizer_the_routes_are_the_plain_ones(self) -> None:
        broker, plain = make_broker(), Routes()
        assert broker.access is None
        assert broker.routes.remakes == ()
        for api, (first, last) in SERVED_VERSIONS.items():
            for version in range(first, last + 1):
                key = api << 16 | version
                assert broker.routes.load(key).handle is plain.load(key).handle

    def test_every_api_declares_a_need_or_does_not_load(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for api, (first, last) in SERVED_VERSIONS.items():
            for version in (first, last):
                assert (check_of(api, version) is None) == (api in LOGIN_IS_ENOUGH)
        monkeypatch.delitem(resources(), ApiKey.HEARTBEAT)
        check_of.cache_clear()
        with pytest.raises(AssertionError, match="Heartbeat declares no need"):
            secured().routes.load(ApiKey.HEARTBEAT << 16)
        check_of.cache_clear()

    def test_quotas_and_the_authorizer_go_together(self) -> None:
        broker = secured()
        assert len(broker.routes.remakes) == 1
        broker.quotas.throttling.throttles_requests = True
        broker._throttle()
        assert len(broker.routes.remakes) == 2
        alice = client_of(broker, "alice")
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert alice.call(request, 3).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        create_topic(broker, "t", "t2")
        allow(broker, acl(AclOperation.DESCRIBE))
        assert metadata(alice, "t", "t2") == {"t": 0, "t2": DENIED}

    @pytest.mark.parametrize(
        ("name", "value", "text"),
        [
            ("authorizer.class.name", "com.example.Own", "classes of Java cannot be loaded"),
            ("super.users", "alice", "'alice' has no type; write User:alice"),
            ("allow.everyone.if.no.acl.found", "maybe", "use true or false"),
        ],
    )
    def test_a_wrong_setting_ends_the_start(self, name: str, value: str, text: str) -> None:
        with pytest.raises(ConfigError, match=text):
            make_broker({**SETTINGS, name: value})


class TestDecisions:
    def test_a_change_counts_for_the_next_request(self) -> None:
        broker = secured()
        create_topic(broker, "t")
        alice = client_of(broker, "alice")
        assert metadata(alice, "t") == {"t": DENIED}
        allow(broker, acl(AclOperation.READ))
        assert metadata(alice, "t") == {"t": 0}
        allow(broker, acl(AclOperation.DESCRIBE, permission=Permission.DENY))
        assert metadata(alice, "t") == {"t": DENIED}
        forbid(broker, acl(AclOperation.DESCRIBE, permission=Permission.DENY))
        assert metadata(alice, "t") == {"t": 0}

    def test_everybody_may_use_what_no_rule_is_about(self) -> None:
        broker = secured(allow_everyone_if_no_acl_found="true")
        create_topic(broker, "t", "u")
        bob = client_of(broker, "bob")
        assert metadata(bob, "t", "u") == {"t": 0, "u": 0}
        allow(broker, acl(AclOperation.READ))
        assert metadata(bob, "t", "u") == {"t": DENIED, "u": 0}

    def test_denials_are_logged_and_names_cut(self) -> None:
        broker = secured()
        alice = client_of(broker, "alice")
        request = HeartbeatRequest(group_id="g\n" + "x" * 300, generation_id=1, member_id="m")
        alice.call(request, 3)
        (line,) = [
            event
            for level, event, _ in log_of(broker).lines
            if level == "info" and event.startswith("Principal = ")
        ]
        assert line.startswith(
            "Principal = User:alice is Denied operation = READ from host = 127.0.0.1 "
            "on resource = Group:LITERAL:g\\nxxx"
        )
        assert line.endswith(
            "... for request = Heartbeat with resourceRefCount = 1 based on rule DefaultDeny"
        )
        assert "\n" not in line
        assert len(line) < 500
        assert not logged(broker, "request failed")


class TestMetadata:
    def test_creation_needs_describe_and_create(self) -> None:
        broker = secured()
        alice = client_of(broker, "alice")
        assert metadata(alice, "t") == {"t": DENIED}
        allow(broker, acl(AclOperation.DESCRIBE))
        assert metadata(alice, "t") == {"t": DENIED}
        assert metadata(alice, "t", create=False) == {"t": 3}
        assert "t" not in broker.topics.by_name
        allow(broker, acl(AclOperation.CREATE))
        assert metadata(alice, "t") == {"t": 3}
        assert "t" in broker.topics.by_name
        assert metadata(alice, "t") == {"t": 0}

    def test_all_topics_are_those_that_may_be_seen(self) -> None:
        broker = secured()
        create_topic(broker, "t", "u")
        alice, admin = client_of(broker, "alice"), Client(broker)
        assert metadata(alice) == {}
        # The administrator's answer is kept with each topic.
        assert {"t", "u"} <= metadata(admin).keys()
        allow(broker, acl(AclOperation.DESCRIBE))
        assert metadata(alice) == {"t": 0}
        assert {"t", "u"} <= metadata(admin).keys()

    def test_an_encoded_topic_has_the_operations_of_its_reader(self) -> None:
        broker = secured()
        create_topic(broker, "t")
        allow(broker, acl(AclOperation.READ))
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name="t")], include_topic_authorized_operations=True
        )
        for _ in range(2):
            for user, bits in (("alice", 264), ("ANONYMOUS", 3576)):
                (topic,) = client_of(broker, user).call(request, 9).topics
                assert topic.topic_authorized_operations == bits


def fetch(client: Client, *names: str, session: int = 0, epoch: int = 0) -> FetchResponse:
    topics = [
        FetchRequestTopic(
            topic=name,
            partitions=[
                FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            ],
        )
        for name in names
    ]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=topics, session_id=session, session_epoch=epoch
    )
    response = settle(client, request, 7)
    assert isinstance(response, FetchResponse)
    return response


def errors(response: FetchResponse) -> dict[str, int]:
    return {each.topic: each.partitions[0].error_code for each in response.responses}


class TestFetchSessions:
    def test_each_request_asks_anew_for_all_partitions(self) -> None:
        broker = secured()
        create_topic(broker, "t", "u")
        allow(broker, acl(AclOperation.READ), acl(AclOperation.READ, name="u"))
        alice = client_of(broker, "alice")
        first = fetch(alice, "t", "u")
        assert errors(first) == {"t": 0, "u": 0}
        session = first.session_id
        # Nothing is new, and both partitions rest.
        assert errors(fetch(alice, session=session, epoch=1)) == {}
        assert errors(fetch(alice, session=session, epoch=2)) == {}
        forbid(broker, acl(AclOperation.READ, name="u"))
        assert errors(fetch(alice, session=session, epoch=3)) == {"u": DENIED}
        assert errors(fetch(alice, session=session, epoch=4)) == {"u": DENIED}
        allow(broker, acl(AclOperation.READ, name="u"))
        assert errors(fetch(alice, session=session, epoch=5)) == {"u": 0}
        assert errors(fetch(alice, session=session, epoch=6)) == {}

    def test_a_session_of_another_user_gives_no_rights(self) -> None:
        broker = secured()
        create_topic(broker, "t")
        allow(broker, acl(AclOperation.READ))
        first = fetch(client_of(broker, "alice"), "t")
        bob = client_of(broker, "bob")
        assert errors(fetch(bob, session=first.session_id, epoch=1)) == {"t": DENIED}


class TestProduce:
    @pytest.mark.parametrize("names", [("u",), ("t", "u")])
    def test_without_a_response_the_connection_is_closed(self, names: tuple[str, ...]) -> None:
        broker = secured()
        create_topic(broker, "t", "u")
        allow(broker, acl(AclOperation.WRITE))
        alice = client_of(broker, "alice")
        records = bytes(encode_records([Record(0, 1000, None, b"a")]))
        topics = [
            ProduceRequestTopic(
                name=name, partition_data=[ProduceRequestPartition(index=0, records=records)]
            )
            for name in names
        ]
        request = ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics)
        alice.send(request, 7)
        loop_of(broker).turn()
        assert alice.connection.closed
        assert logged(broker, "connection closed")[0]["error"] == "TOPIC_AUTHORIZATION_FAILED"


class TestRegularExpressions:
    def test_hidden_topics_are_not_matched(self) -> None:
        broker = secured()
        create_topic(broker, "t-seen", "t-hidden")
        allow(
            broker,
            acl(AclOperation.READ, GROUP, "g"),
            acl(AclOperation.DESCRIBE, name="t-seen"),
        )
        alice = client_of(broker, "alice")
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_regex="t-.*",
            topic_partitions=[],
        )
        assert settle(alice, request, 1).error_code == 0
        for _ in range(10):
            loop_of(broker).turn()
            loop_of(broker).advance(10)
        (shard,) = [each for each in broker.coordinator.shards if "g" in each.groups]
        group: Any = shard.groups["g"]
        assert set(group.regexes["t-.*"].topics) == {"t-seen"}


class TestTransactions:
    def test_ids_are_listed_with_describe(self) -> None:
        broker = secured()
        admin, alice = Client(broker), client_of(broker, "alice")
        settle(admin, FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
        for runtime in broker.runtimes:
            run(broker, runtime.load())
        begin = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)
        assert settle(admin, begin, 4).error_code == 0
        asked = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
        for client, listed in ((admin, ["x"]), (alice, [])):
            found = settle(client, asked, 0).transaction_states
            assert [each.transactional_id for each in found] == listed
        allow(broker, acl(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "x"))
        (found,) = settle(alice, asked, 0).transaction_states
        assert found.transactional_id == "x"


class TestDelegationTokens:
    def test_tokens_of_others_need_rights(self) -> None:
        broker = make_broker({**SETTINGS, "delegation.token.secret.key": "secret"})
        alice, bob = client_of(broker, "alice"), client_of(broker, "bob")

        def create(owner: str) -> Any:
            return settle(
                alice,
                CreateDelegationTokenRequest(
                    owner_principal_type="User",
                    owner_principal_name=owner,
                    renewers=[],
                    max_lifetime_ms=-1,
                ),
                3,
            )

        refused = create("bob")
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
        assert (refused.token_id, refused.hmac, refused.max_timestamp_ms) == ("", b"", -1)
        own = create("alice")
        assert own.error_code == 0
        allow(broker, acl(AclOperation.CREATE_TOKENS, ResourceType.USER, "User:bob"))
        of_bob = create("bob")
        assert of_bob.error_code == 0
        described = DescribeDelegationTokenRequest(owners=None)

        def seen(client: Client) -> set[str]:
            return {each.token_id for each in settle(client, described, 3).tokens}

        assert seen(bob) == {of_bob.token_id}
        # Who has asked for a token sees it, too.
        assert seen(alice) == {own.token_id, of_bob.token_id}
        carol = client_of(broker, "carol")
        assert seen(carol) == set()
        of_user = acl(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob")
        allow(broker, of_user._replace(principal="User:carol"))
        assert seen(carol) == {of_bob.token_id}
        forbid(broker, of_user._replace(principal="User:carol"))
        one = acl(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, own.token_id)
        allow(broker, one._replace(principal="User:carol"))
        assert seen(carol) == {own.token_id}


class TestRules:
    @pytest.mark.parametrize("with_authorizer", [True, False])
    def test_rules_outlive_a_restart(self, with_authorizer: bool) -> None:
        filesystem = MemoryFileSystem()
        broker = make_broker(SETTINGS, filesystem=filesystem, flush=COMMIT)
        allow(broker, acl(AclOperation.READ), acl(AclOperation.WRITE))
        forbid(broker, acl(AclOperation.WRITE))
        broker._data.close()
        again = make_broker(SETTINGS if with_authorizer else None, filesystem=filesystem)
        # A broker without an authorizer keeps them, and says that it does not ask them.
        assert list(again.acls.ids) == [acl(AclOperation.READ)]
        lines = logged(again, "access rules have no effect")
        assert [each["rules"] for each in lines] == ([] if with_authorizer else [1])
        if with_authorizer:
            create_topic(again, "t")
            assert metadata(client_of(again, "alice"), "t") == {"t": 0}

    def test_wrong_rules_are_refused_beside_good_ones(self) -> None:
        broker = secured()
        good = acl(AclOperation.READ)
        wrong = {
            "resource_type": (99, "Invalid resourceType UNKNOWN"),
            "resource_pattern_type": (99, "Invalid patternType UNKNOWN"),
            "operation": (99, "Invalid operation UNKNOWN"),
            "permission_type": (99, "Invalid permissionType UNKNOWN"),
            "resource_name": ("", "Invalid empty resource name"),
            "principal": ("alice", "Could not parse principal from `alice`"),
        }
        for field, (value, text) in wrong.items():
            fields: dict[str, Any] = {
                "resource_type": TOPIC, "resource_name": "t", "resource_pattern_type": LITERAL,
                "principal": "User:alice", "host": "*", "operation": AclOperation.READ,
                "permission_type": Permission.ALLOW,
            }  # fmt: skip
            creations = [
                CreateAclsRequestCreation(**fields),
                CreateAclsRequestCreation(**{**fields, field: value}),
            ]
            answer = settle(Client(broker), CreateAclsRequest(creations=creations), 3)
            first, second = answer.results
            assert (first.error_code, first.error_message) == (0, "")
            assert second.error_code == ErrorCode.INVALID_REQUEST
            assert second.error_message.startswith(text)
        assert list(broker.acls.ids) == [good]

    def test_the_number_of_rules_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("coterie.server.handlers.acls.MOST_RULES", 2)
        broker = secured()
        allow(broker, acl(AclOperation.READ))
        creations = [
            CreateAclsRequestCreation(
                resource_type=TOPIC, resource_name=name, resource_pattern_type=LITERAL,
                principal="User:alice", host="*", operation=3, permission_type=3,
            )
            for name in ("u", "v")
        ]  # fmt: skip
        answer = settle(Client(broker), CreateAclsRequest(creations=creations), 3)
        found = [each.error_code for each in answer.results]
        assert found == [0, ErrorCode.POLICY_VIOLATION]
        assert len(broker.acls) == 2

    def test_codes_of_filters_fail_all_rules(self) -> None:
        broker = secured()
        creation = CreateAclsRequestCreation(
            resource_type=TOPIC, resource_name="t", resource_pattern_type=LITERAL,
            principal="User:alice", host="*", operation=1, permission_type=3,
        )  # fmt: skip
        answer = Client(broker).call(CreateAclsRequest(creations=[creation, creation]), 3)
        found = [(each.error_code, each.error_message) for each in answer.results]
        assert found == [(-1, None)] * 2

    def test_code_zero_closes_the_connection(self) -> None:
        broker = secured()
        admin = Client(broker)
        request = DescribeAclsRequest(
            resource_type_filter=0, resource_name_filter=None, pattern_type_filter=ANY,
            principal_filter=None, host_filter=None, operation=ANY, permission_type=ANY,
        )  # fmt: skip
        admin.send(request, 3)
        assert admin.connection.closed

    @pytest.mark.parametrize("kind", [99, ANY])
    def test_descriptions_are_grouped(self, kind: int) -> None:
        broker = secured()
        allow(broker, acl(AclOperation.READ), acl(AclOperation.WRITE))
        allow(broker, acl(AclOperation.READ, GROUP))
        request = DescribeAclsRequest(
            resource_type_filter=kind, resource_name_filter=None, pattern_type_filter=ANY,
            principal_filter="User:alice", host_filter=None, operation=ANY, permission_type=ANY,
        )  # fmt: skip
        answer = Client(broker).call(request, 3)
        assert answer.error_message == ""
        expected = {(TOPIC, 2), (GROUP, 1)} if kind == ANY else set()
        assert {(each.resource_type, len(each.acls)) for each in answer.resources} == expected
