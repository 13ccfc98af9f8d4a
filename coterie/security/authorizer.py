"""What each client may do, as Kafka's StandardAuthorizer decides it [security/decisions].

Decisions are kept until a rule changes. Invariant: a kept decision is that of the present rules.
"""

from collections.abc import Iterable
from typing import NamedTuple

from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.resources import ResourceType
from coterie.security.acl import (
    ANY_HOST,
    CLUSTER_NAME,
    EVERYBODY,
    WILDCARD,
    Acl,
    PatternType,
    Permission,
)
from coterie.security.acl_store import AclStore

# The operations that a rule which allows one of them allows, too.
_IMPLYING = {
    AclOperation.DESCRIBE: {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
# A name that Kafka asks about before it looks at all rules of a type.
_NAME_OF_A_TYPE = "hardcode"
# How many decisions are kept for one client, and for how many clients. Peers choose the names that
# they ask about, and one decision has some 200 bytes.
MOST_DECISIONS = 10_000
# Codes of types of resources have so many bits.
_KIND_BITS = 4
MOST_CLIENTS = 1_000


class Decision(NamedTuple):
    """Whether an operation is allowed.

    Attributes:
        is_allowed: the decision.
        acl: the rule that decides.
        rule: what decides if no rule does: SuperUser, DefaultAllow, or DefaultDeny.
    """

    is_allowed: bool
    acl: Acl | None
    rule: str

    @property
    def reason(self) -> str:
        """What decides, as Kafka's log shows it."""
        return self.rule if self.acl is None else f"MatchingAcl(acl={self.acl.java_text})"


_SUPER_USER = Decision(True, None, "SuperUser")
_ALLOW = Decision(True, None, "DefaultAllow")
_DENY = Decision(False, None, "DefaultDeny")


class Authorizer:
    """The rules, and who needs none.

    Attributes:
        acls: the rules.
    """

    def __init__(
        self,
        acls: AclStore,
        super_users: Iterable[str] = (),
        *,
        allows_without_acl: bool = False,
    ) -> None:
        """Decide by rules, which may change.

        Args:
            acls: the rules.
            super_users: the principals that may do everything.
            allows_without_acl: whether everybody may do everything to a resource for which there is
                no rule.
        """
        self.acls = acls
        # The state of the rules by which the kept decisions were made.
        self._version = acls.version
        self._super_users = frozenset(super_users)
        self._default = _ALLOW if allows_without_acl else _DENY
        self._rights: dict[tuple[str, str], Rights] = {}

    def rights(self, principal: str, host: str) -> "Rights":
        """Return what a principal may do from an address, by the present rules.

        The address may have the slash that Java prints before it.
        """
        if self.acls.version != self._version:
            self._rights.clear()
            self._version = self.acls.version
        rights = self._rights.get((principal, host))
        if rights is None:
            if len(self._rights) >= MOST_CLIENTS:
                self._rights.clear()
            address = host.removeprefix("/")
            rights = self._rights[principal, host] = Rights(self, principal, address)
        return rights

    def decide(
        self, principal: str, host: str, operation: int, kind: ResourceType, name: str
    ) -> Decision:
        """Decide by the rules whether a principal may do something to a resource."""
        if principal in self._super_users:
            return _SUPER_USER
        allowing: Acl | None = None
        result = self._default
        for by_principal in self.acls.patterns_of(kind, name):
            result = _DENY
            for who in (principal, EVERYBODY):
                for acl in by_principal.get(who, ()):
                    if acl.host not in (ANY_HOST, host):
                        continue
                    if acl.permission == Permission.ALLOW:
                        if allowing is None and _allows(acl.operation, operation):
                            allowing = acl
                    elif acl.operation in (operation, AclOperation.ALL):
                        return Decision(False, acl, "")
        return result if allowing is None else Decision(True, allowing, "")

    def decide_for_any(self, principal: str, host: str, operation: int, kind: ResourceType) -> bool:
        """Decide whether a principal may do something to any resource of a type.

        [security/any-resource]
        """
        if self.decide(principal, host, operation, kind, _NAME_OF_A_TYPE).is_allowed:
            return True
        denied: dict[int, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        allowed: list[Acl] = []
        for acl in self.acls.of_principals(kind, (principal, EVERYBODY)):
            if acl.host in (ANY_HOST, host) and acl.operation in (operation, AclOperation.ALL):
                if acl.permission == Permission.ALLOW:
                    allowed.append(acl)
                else:
                    denied[acl.pattern_type].add(acl.name)
        if WILDCARD in denied[PatternType.LITERAL]:
            return False
        return any(_is_left(acl, denied) for acl in allowed)


def _allows(of_rule: int, wanted: int) -> bool:
    return of_rule in (wanted, AclOperation.ALL) or of_rule in _IMPLYING.get(
        AclOperation(wanted), ()
    )


def _is_left(acl: Acl, denied: dict[int, set[str]]) -> bool:
    """Return whether other rules leave something of what a rule allows, as Kafka sees it."""
    if acl.pattern_type == PatternType.LITERAL:
        if acl.name == WILDCARD:
            return True
        if acl.name in denied[PatternType.LITERAL]:
            return False
    prefixes = denied[PatternType.PREFIXED]
    return not any(acl.name[:length] in prefixes for length in range(1, len(acl.name) + 1))


class Rights:
    """What a principal may do from an address, by one state of the rules, as far as it was asked.

    It must not be used for later requests, because it does not see that a rule changes.
    """

    __slots__ = ("_authorizer", "_for_any", "_host", "_kept", "_left", "_principal")

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        """Know nothing yet."""
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        # By type and operation as one number, and then by name.
        self._kept: dict[int, dict[str, Decision]] = {}
        self._for_any: dict[tuple[int, int], bool] = {}
        self._left = MOST_DECISIONS

    def decision(self, operation: int, kind: ResourceType, name: str) -> Decision:
        """Return whether an operation on a resource is allowed, and why."""
        slot = operation << _KIND_BITS | kind
        kept = self._kept.get(slot)
        if kept is None:
            kept = self._kept[slot] = {}
        decision = kept.get(name)
        if decision is None:
            if not self._left:
                self._kept = {slot: kept}
                kept.clear()
                self._left = MOST_DECISIONS
            self._left -= 1
            decision = kept[name] = self._authorizer.decide(
                self._principal, self._host, operation, kind, name
            )
        return decision

    def may(self, operation: int, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether an operation on a resource is allowed."""
        return self.decision(operation, kind, name).is_allowed

    def may_for_any(self, operation: int, kind: ResourceType) -> bool:
        """Return whether an operation is allowed on any resource of a type."""
        key = operation, kind
        found = self._for_any.get(key)
        if found is None:
            found = self._for_any[key] = self._authorizer.decide_for_any(
                self._principal, self._host, operation, kind
            )
        return found

    def bits(self, kind: ResourceType, name: str, operations: int) -> int:
        """Return those of some operations, one bit each, that are allowed [security/operations]."""
        return sum(
            1 << operation
            for operation in range(operations.bit_length())
            if operations >> operation & 1 and self.may(operation, kind, name)
        )
