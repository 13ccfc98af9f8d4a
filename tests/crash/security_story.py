"""A story of users, access rules and delegation tokens on a broker whose disk is recorded.

Requests are sent one by one, several at a time so that they share a write, and without waiting for
the answer before the broker is killed. The security log is rewritten after every few of them. What
must be kept is the state after each change, in the order in which the changes were asked for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from coterie.protocol.authorized_operations import AclOperation
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
)
from coterie.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from coterie.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from coterie.protocol.resources import ResourceType
from coterie.security.acl import PatternType, Permission
from coterie.security.scram import salted_password
from coterie.server.broker import Broker
from coterie.server.security import security_log
from tests.crash.broker_run import BrokerRun, answer_to
from tests.crash.disk import Disk, Operation
from tests.unit.server.manual import Client

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "a-secret",
    # A token expires within the story.
    "delegation.token.expiry.time.ms": "60000",
}
# The log is rewritten when a few changes hold no longer, and not a mebibyte of them.
_GARBAGE_BYTES = 600
SALT = b"salt"
SHA_256, SHA_512 = 1, 2
_ANY = 1

# A credential, a rule or a token, with what is told of it.
State = dict[tuple[Any, ...], Any]
Effect = Callable[[State, Any], None]


@contextmanager
def early_rewriting() -> Iterator[None]:
    """Let brokers rewrite a security log that is as small as that of the story."""
    with mock.patch.object(security_log, "GARBAGE_BYTES", _GARBAGE_BYTES):
        yield


class Moment(NamedTuple):
    """A state, and when it may and when it must be found: numbers of operations.

    Attributes:
        state: what is kept.
        asked: when the change was asked for.
        answered: when it was answered; None if it never was.
    """

    state: State
    asked: int
    answered: int | None


class Change(NamedTuple):
    """A request, and what it makes of a state, given its answer or None if there is none."""

    request: Any
    version: int
    effect: Effect


def password(name: str, iterations: int) -> str:
    """Return the password that a user has with so many iterations."""
    return f"{name} {iterations}"


def alter(*credentials: tuple[str, int, int | None]) -> Change:
    """Set credentials, each a user, a mechanism and its iterations; None removes it."""
    request = AlterUserScramCredentialsRequest(
        deletions=[
            AlterUserScramCredentialsRequestDeletion(name=name, mechanism=mechanism)
            for name, mechanism, iterations in credentials
            if iterations is None
        ],
        upsertions=[
            AlterUserScramCredentialsRequestUpsertion(
                name=name,
                mechanism=mechanism,
                iterations=iterations,
                salt=SALT,
                salted_password=salted_password(
                    mechanism, password(name, iterations), SALT, iterations
                ),
            )
            for name, mechanism, iterations in credentials
            if iterations is not None
        ],
    )

    def effect(state: State, answer: Any) -> None:
        assert answer is None or not any(each.error_code for each in answer.results), answer
        for name, mechanism, iterations in credentials:
            state.pop(("user", name, mechanism), None)
            if iterations is not None:
                state["user", name, mechanism] = iterations

    return Change(request, 0, effect)


def allow(*rules: tuple[str, str]) -> Change:
    """Let users, each with the topic, read."""
    request = CreateAclsRequest(
        creations=[
            CreateAclsRequestCreation(
                resource_type=ResourceType.TOPIC,
                resource_name=topic,
                resource_pattern_type=PatternType.LITERAL,
                principal=f"User:{user}",
                host="*",
                operation=AclOperation.READ,
                permission_type=Permission.ALLOW,
            )
            for user, topic in rules
        ]
    )

    def effect(state: State, answer: Any) -> None:
        assert answer is None or not any(each.error_code for each in answer.results), answer
        for user, topic in rules:
            state["rule", f"User:{user}", topic] = True

    return Change(request, 3, effect)


def disallow(user: str) -> Change:
    """Remove all rules of a user."""
    rules = DeleteAclsRequestFilter(**_every_rule(), principal_filter=f"User:{user}")
    request = DeleteAclsRequest(filters=[rules])

    def effect(state: State, answer: Any) -> None:
        assert answer is None or not any(each.error_code for each in answer.filter_results), answer
        for key in [each for each in state if each[:2] == ("rule", f"User:{user}")]:
            del state[key]

    return Change(request, 3, effect)


def _every_rule() -> dict[str, Any]:
    return {
        "resource_type_filter": _ANY,
        "resource_name_filter": None,
        "pattern_type_filter": _ANY,
        "host_filter": None,
        "operation": _ANY,
        "permission_type": _ANY,
    }


class SecurityRun(BrokerRun):
    """The story while it runs."""

    def __init__(self, *, flush: bool) -> None:
        """Start a broker without users, rules and tokens."""
        super().__init__(SETTINGS, flush=flush)
        self.moments = [Moment({}, 0, 0)]
        # When each client got its answer, by the id of the client.
        self._answered: dict[int, int] = {}

    def start(self) -> None:
        """See `BrokerRun`."""
        super().start()
        self.client = admin(self.broker)

    # --- tokens -----------------------------------------------------------------------------------

    def create_token(self, lifetime_ms: int = -1) -> Change:
        """Create a token of the administrator."""
        request = CreateDelegationTokenRequest(
            owner_principal_type="",
            owner_principal_name="",
            renewers=[],
            max_lifetime_ms=lifetime_ms,
        )

        def effect(state: State, answer: Any) -> None:
            self._forget_expired(state)
            state["token", answer.token_id] = answer.expiry_timestamp_ms

        return Change(request, 3, effect)

    def renew_token(self, number: int) -> Change:
        """Let one of the tokens expire later."""
        token_id = self._token(number)
        request = RenewDelegationTokenRequest(
            hmac=self.broker.tokens.hmac(token_id), renew_period_ms=-1
        )

        def effect(state: State, answer: Any) -> None:
            self._forget_expired(state)
            state["token", token_id] = answer.expiry_timestamp_ms

        return Change(request, 2, effect)

    def expire_token(self, number: int) -> Change:
        """Delete one of the tokens."""
        token_id = self._token(number)
        request = ExpireDelegationTokenRequest(
            hmac=self.broker.tokens.hmac(token_id), expiry_time_period_ms=-1
        )

        def effect(state: State, _answer: Any) -> None:
            self._forget_expired(state)
            state.pop(("token", token_id), None)

        return Change(request, 2, effect)

    def _token(self, number: int) -> str:
        found = [key[1] for key in self.moments[-1].state if key[0] == "token"]
        return str(found[number])

    def _forget_expired(self, state: State) -> None:
        now_ms = self.loop.clock()
        for key in [each for each in state if each[0] == "token" and state[each] < now_ms]:
            del state[key]

    # --- steps ------------------------------------------------------------------------------------

    def change(self, *changes: Change) -> None:
        """Make changes, each on a connection of its own, all sent before one is answered."""
        asked = self.done
        clients = [self._sent(each) for each in changes]
        for client, each in zip(clients, changes, strict=True):
            while not client.transport.written:
                self.loop.jump()
            ((_, answer),) = client.answers()
            assert not getattr(answer, "error_code", 0), f"{each.request}: {answer}"
            self._add(each, answer, asked, self._answered[id(client)])
        self.loop.advance(1)

    def _sent(self, change: Change) -> Client:
        client = admin(self.broker)
        write = client.transport.write

        def note(data: bytes | bytearray | memoryview) -> None:
            self._answered[id(client)] = self.done
            write(data)

        client.transport.write = note  # type: ignore[method-assign]
        client.send(change.request, change.version)
        return client

    def _add(self, change: Change, answer: Any, asked: int, answered: int | None) -> None:
        state = dict(self.moments[-1].state)
        change.effect(state, answer)
        self.moments.append(Moment(state, asked, answered))

    def die_during(self, *changes: Change) -> None:
        """Kill the broker behind requests; what the next one shows must be kept from then on."""
        first, asked = len(self.moments) - 1, self.done
        for each in changes:
            self._sent(each)
            self._add(each, None, asked, None)
        self.die()
        found = observed(self.client)
        assert found in [each.state for each in self.moments[first:]], found
        self.moments.append(Moment(found, asked, self.done))


def admin(broker: Broker) -> Client:
    """Return a client that has logged in as the administrator."""
    client = Client(broker)
    connection = client.connection
    connection.client = connection.client._replace(principal="User:admin")
    return client


def observed(client: Client) -> State:
    """Return what the broker tells about users, rules and tokens."""
    state: State = {}
    users = answer_to(client, DescribeUserScramCredentialsRequest(users=None), 0)
    for each in users.results:
        for info in each.credential_infos:
            state["user", each.user, info.mechanism] = info.iterations
    rules = answer_to(client, DescribeAclsRequest(**_every_rule(), principal_filter=None), 3)
    for resource in rules.resources:
        for rule in resource.acls:
            state["rule", rule.principal, resource.resource_name] = True
    tokens = answer_to(client, DescribeDelegationTokenRequest(owners=None), 3)
    assert not tokens.error_code, tokens
    for each in tokens.tokens:
        state["token", each.token_id] = each.expiry_timestamp
    return state


def users(run: SecurityRun) -> None:
    """Credentials of both mechanisms: new, changed, several at once, removed."""
    run.change(alter(("ann", SHA_256, 4096)))
    run.change(alter(("ann", SHA_512, 4097), ("bob", SHA_256, 4098)))
    run.change(
        alter(("bob", SHA_256, 4099)), alter(("cid", SHA_256, 4100)), alter(("bob", SHA_256, None))
    )
    run.die_during(alter(("dan", SHA_256, 4101), ("eve", SHA_256, 4101)))
    for iterations in range(4102, 4108):
        run.change(alter(("ann", SHA_256, iterations)))
    run.stop()
    run.change(alter(("ann", SHA_512, None), ("fay", SHA_512, 4108)))
    run.die_during(alter(("fay", SHA_512, 4109)), alter(("ann", SHA_256, None)))
    run.change(alter(("gil", SHA_256, 4110)))


def rules(run: SecurityRun) -> None:
    """Access rules: several of a request, the same one twice, removed with those of their user."""
    run.change(allow(("ann", "t"), ("ann", "u"), ("bob", "t")))
    run.change(allow(("ann", "t")))
    run.change(disallow("ann"), allow(("cid", "t")), allow(("cid", "u")))
    run.die_during(allow(("dan", "t"), ("dan", "u")))
    for _ in range(4):
        run.change(allow(("ann", "t"), ("ann", "v"), ("ann", "w")))
        run.change(disallow("ann"))
    run.die_during(disallow("cid"))
    run.change(allow(("eve", "t")))
    run.stop()
    run.change(disallow("bob"))


def tokens(run: SecurityRun) -> None:
    """Tokens: new, renewed, expired, deleted; beside users and rules."""
    run.change(run.create_token())
    run.change(run.create_token(5_000), alter(("ann", SHA_256, 4096)), allow(("ann", "t")))
    run.loop.advance(6_000)
    run.change(run.renew_token(0))
    run.die_during(run.expire_token(0))
    run.change(run.create_token(), run.create_token())
    for _ in range(6):
        run.loop.advance(1_000)
        run.change(run.renew_token(0))
    run.change(run.expire_token(0), disallow("ann"))
    run.stop()
    run.change(run.renew_token(0))
    run.change(alter(("ann", SHA_256, None)))


STORIES: dict[str, Callable[[SecurityRun], None]] = {
    story.__name__: story for story in (users, rules, tokens)
}


class Story(NamedTuple):
    """A story that was recorded.

    Attributes:
        flush: whether the broker syncs before it answers.
        base: the disk before it.
        operations: what was done on the disk.
        moments: what was asked for, and answered.
        now_ms: when it ended.
    """

    flush: bool
    base: Disk
    operations: list[Operation]
    moments: list[Moment]
    now_ms: float


def record_story(name: str, *, flush: bool) -> Story:
    """Run a story and return what it did."""
    with early_rewriting():
        run = SecurityRun(flush=flush)
        base = run.filesystem.disk.copy()
        run.filesystem.operations.clear()
        STORIES[name](run)
    return Story(flush, base, run.filesystem.operations, run.moments, run.loop.now_ms)
