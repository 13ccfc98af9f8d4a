"""Access rules (ACLs) and filters of them, with Kafka's codes [security/filters]."""

from enum import IntEnum
from typing import NamedTuple

from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.resources import ResourceType

# The name that a LITERAL pattern has for every resource of its type.
WILDCARD = "*"
# The principal of rules for everybody, and the host of rules for every address.
EVERYBODY = "User:*"
ANY_HOST = "*"
# The one resource of type CLUSTER.
CLUSTER_NAME = "kafka-cluster"


class PatternType(IntEnum):
    """How the name of a pattern is compared. ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What a rule does. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule: a principal may, or may not, do something to resources from a host.

    Attributes:
        resource_type, name, pattern_type: the pattern of the resources.
        principal: as text, such as "User:alice".
        host: an address as text, or `ANY_HOST`.
        operation, permission: what it allows or denies.
    """

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    @property
    def java_text(self) -> str:
        """The rule as Kafka's log shows it."""
        return (
            f"StandardAcl[resourceType={ResourceType(self.resource_type).name}, "
            f"resourceName={self.name}, patternType={PatternType(self.pattern_type).name}, "
            f"principal={self.principal}, host={self.host}, "
            f"operation={AclOperation(self.operation).name}, "
            f"permissionType={Permission(self.permission).name}]"
        )


class AclFilter(NamedTuple):
    """What a description or a deletion is about.

    Attributes:
        resource_type, operation, permission: one code, or ANY.
        name, principal, host: a text, or None for any.
        pattern_type: LITERAL or PREFIXED; ANY for both with this name; MATCH for every pattern that
            has the named resource.
    """

    resource_type: int
    name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def fits(self, acl: Acl) -> bool:
        """Return whether a rule is one of those meant [security/filters]."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._fits_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _fits_name(self, acl: Acl) -> bool:
        kind, name = self.pattern_type, self.name
        if kind not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None or name == acl.name:
            return True
        if kind != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.LITERAL:
            return acl.name == WILDCARD
        return name.startswith(acl.name)


# The filter that every rule fits.
EVERYTHING = AclFilter(
    ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, Permission.ANY
)
