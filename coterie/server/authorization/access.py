"""The authorizer of a broker, and the lines that its log gets [security/audit].

A broker without `authorizer.class.name` has none, and its routes are the plain ones.
"""

import logging
from collections.abc import Sequence

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.messages.security_records import (
    RemoveAccessControlEntryRecord,
    SecurityRecord,
)
from coterie.protocol.resources import ResourceType
from coterie.security.acl import CLUSTER_NAME, Acl
from coterie.security.acl_store import AclStore, record_of
from coterie.security.authorizer import Authorizer, Decision
from coterie.server.config.broker_keys import AUTHORIZER_CLASS
from coterie.server.config.config import Config
from coterie.server.config.kafka_keys import ALLOWED_WITHOUT_ACL, SUPER_USERS
from coterie.server.config.sources import ConfigError
from coterie.server.environment import Environment
from coterie.server.loggers import AUTHORIZER
from coterie.server.network.delayed_response import Exchange
from coterie.server.security.security_log import Callback, SecurityLog

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# Names that clients have made up are cut in log lines.
_LONGEST_NAME = 200
# For so many principals denials are counted one by one; a dashboard shows fewer.
MOST_PRINCIPALS = 100
# The name of all others; principals have a type and a colon.
OTHERS = "others"
# How Kafka writes the types of resources.
_TYPES = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}


def make_authorizer(config: Config, acls: AclStore) -> Authorizer:
    """Return the authorizer that the settings ask for, for some rules.

    Raises:
        ConfigError: the settings cannot be used.
    """
    name = config.get_text(AUTHORIZER_CLASS)
    if name != STANDARD_AUTHORIZER:
        reason = f"classes of Java cannot be loaded; use {STANDARD_AUTHORIZER}"
        raise ConfigError(f"{AUTHORIZER_CLASS}={name}: {reason}")
    users = [each.strip() for each in (config.text(SUPER_USERS) or "").split(";")]
    for user in users:
        if user and ":" not in user:
            raise ConfigError(f"{SUPER_USERS}: {user!r} has no type; write User:{user}")
    super_users = filter(None, users)
    is_open = (config.text(ALLOWED_WITHOUT_ACL) or "false").strip().lower()
    if is_open not in ("true", "false"):
        raise ConfigError(f"{ALLOWED_WITHOUT_ACL}={is_open}: use true or false")
    return Authorizer(acls, super_users, allows_without_acl=is_open == "true")


class Access:
    """The authorizer of one broker.

    Attributes:
        authorizer: the rules and the decisions.
        denials: how many operations were denied, by principal [metrics/principals].
    """

    def __init__(
        self, authorizer: Authorizer, security_log: SecurityLog, environment: Environment
    ) -> None:
        """Use an authorizer.

        Args:
            authorizer: its rules are in the security log.
            security_log: takes changes of the rules.
            environment: its loggers are used.
        """
        self.authorizer = authorizer
        self._security_log = security_log
        self._log = environment.loggers.named(AUTHORIZER)
        self._new_id = environment.new_topic_id
        self.denials: dict[str, int] = {}

    def of(self, connection: Exchange, api: ApiKey) -> "ClientAccess":
        """Return what the client of a request may do."""
        return ClientAccess(self, connection, api)

    def change(self, add: Sequence[Acl], remove: Sequence[Acl], done: Callback) -> None:
        """Add and remove rules; they count from now on.

        Args:
            add: rules, of which some may be there already.
            remove: rules that are there.
            done: called once, perhaps at once: with None when the change is as durable as `--flush`
                promises, or with the error.
        """
        acls = self.authorizer.acls
        records: list[SecurityRecord] = [
            record_of(each, self._new_id()) for each in dict.fromkeys(add) if each not in acls.ids
        ]
        records += [RemoveAccessControlEntryRecord(id=acls.ids[each]) for each in remove]
        if records:
            self._security_log.append(records, done)
        else:
            done(None)

    def logs(self, decision: Decision) -> bool:
        """Return whether a decision has a line in the log."""
        return not decision.is_allowed or self._log.is_enabled_for(logging.DEBUG)

    def log(self, client: "ClientAccess", decision: Decision, what: "Wanted", count: int) -> None:
        """Log a decision: INFO for one that denies, DEBUG for one that allows."""
        if not decision.is_allowed:
            self._count_denial(client.principal)
        operation, kind, name = what
        text = (
            f"Principal = {_shown(client.principal)} is "
            f"{'Allowed' if decision.is_allowed else 'Denied'} "
            f"operation = {AclOperation(operation).name} from host = {client.host} "
            f"on resource = {_TYPES[kind]}:LITERAL:{_shown(name)} "
            f"for request = {client.api.kafka_name} with resourceRefCount = {count} "
            f"based on rule {_shown(decision.reason)}"
        )
        (self._log.debug if decision.is_allowed else self._log.info)(text)

    def _count_denial(self, principal: str) -> None:
        denials = self.denials
        if principal not in denials and len(denials) >= MOST_PRINCIPALS:
            principal = OTHERS
        denials[principal] = denials.get(principal, 0) + 1


# An operation on a resource.
Wanted = tuple[int, ResourceType, str]


class ClientAccess:
    """What the client of one request may do. It is made for each request, and not kept.

    Attributes:
        api: the API of the request.
    """

    __slots__ = ("_access", "_client", "_rights", "api")

    def __init__(self, access: Access, connection: Exchange, api: ApiKey) -> None:
        self._client = client = connection.client
        self._access = access
        self.api = api
        self._rights = access.authorizer.rights(client.principal, client.client_host)

    @property
    def principal(self) -> str:
        """The principal."""
        return self._client.principal

    @property
    def host(self) -> str:
        """The address, as rules name it."""
        return self._client.client_host[1:]

    def may(self, operation: int, kind: ResourceType, name: str, count: int = 1) -> bool:
        """Return whether an operation is allowed, and log the decision.

        Args:
            operation, kind, name: the operation and the resource.
            count: how often the request names the resource.
        """
        decision = self._rights.decision(operation, kind, name)
        if self._access.logs(decision):
            self._access.log(self, decision, (operation, kind, name), count)
        return decision.is_allowed

    def may_quietly(self, operation: int, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether an operation is allowed, where a refusal is no event."""
        return self._rights.may(operation, kind, name)

    def may_with_cluster(self, operation: int) -> bool:
        """Return whether an operation on the cluster is allowed."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_with_any_topic(self, operation: int) -> bool:
        """Return whether an operation is allowed on any topic [security/any-resource]."""
        return self._rights.may_for_any(operation, ResourceType.TOPIC)

    @property
    def version(self) -> tuple[str, str, int]:
        """For whom, and by which state of the rules, decisions are made now."""
        return self.principal, self.host, self._access.authorizer.acls.version

    def bits(self, kind: ResourceType, name: str, operations: int) -> int:
        """Return those of some operations that are allowed [security/operations]."""
        return self._rights.bits(kind, name, operations)


def _shown(name: str) -> str:
    """Return a name for a log line: escaped and cut."""
    text = name if name.isprintable() else name.encode("unicode_escape").decode("ascii")
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}..."
