"""All rules, found by the resource that they are about.

Invariants: a rule is stored once, with one id; a pattern without rules is forgotten.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from coterie.protocol.messages.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    SecurityRecord,
)
from coterie.protocol.resources import ResourceType
from coterie.security.acl import WILDCARD, Acl, AclFilter, PatternType
from coterie.security.acl_messages import acl_of

# The rules of a pattern, by principal.
ByPrincipal = Mapping[str, list[Acl]]


class AclStore:
    """The rules, as the records of the security log leave them.

    Attributes:
        record_types: the records that are kept here.
        ids: the id of each rule, in the order of their creation.
        version: how often the rules have changed.
    """

    record_types: tuple[type[SecurityRecord], ...] = (
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
    )

    def __init__(self) -> None:
        """Begin without rules."""
        self.ids: dict[Acl, bytes] = {}
        self.version = 0
        self._acls: dict[bytes, Acl] = {}
        self._literal: dict[tuple[int, str], dict[str, list[Acl]]] = {}
        self._prefixed: dict[tuple[int, str], dict[str, list[Acl]]] = {}
        # For each type of resources, the lengths of its prefixes.
        self._lengths: dict[int, Counter[int]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def replay(self, record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> None:
        """Apply a record."""
        if isinstance(record, RemoveAccessControlEntryRecord):
            self.remove(record.id)
        else:
            self.add(acl_of(record), record.id)

    def records(self) -> Iterator[SecurityRecord]:
        """Return the records that make the present state."""
        for acl, acl_id in self.ids.items():
            yield record_of(acl, acl_id)

    def add(self, acl: Acl, acl_id: bytes) -> bool:
        """Add a rule; return False if it is there already."""
        if acl in self.ids:
            return False
        self.version += 1
        self.ids[acl] = acl_id
        self._acls[acl_id] = acl
        key = acl.resource_type, acl.name
        patterns = self._patterns(acl)
        if patterns is self._prefixed and key not in patterns:
            self._lengths.setdefault(acl.resource_type, Counter())[len(acl.name)] += 1
        patterns.setdefault(key, {}).setdefault(acl.principal, []).append(acl)
        return True

    def remove(self, acl_id: bytes) -> bool:
        """Remove the rule with an id; return False if there is none."""
        acl = self._acls.pop(acl_id, None)
        if acl is None:
            return False
        self.version += 1
        del self.ids[acl]
        key = acl.resource_type, acl.name
        patterns = self._patterns(acl)
        by_principal = patterns[key]
        acls = by_principal[acl.principal]
        acls.remove(acl)
        if not acls:
            del by_principal[acl.principal]
        if not by_principal:
            del patterns[key]
            if patterns is self._prefixed:
                self._forget_length(acl)
        return True

    def _patterns(self, acl: Acl) -> dict[tuple[int, str], dict[str, list[Acl]]]:
        return self._literal if acl.pattern_type == PatternType.LITERAL else self._prefixed

    def _forget_length(self, acl: Acl) -> None:
        lengths = self._lengths[acl.resource_type]
        lengths[len(acl.name)] -= 1
        if not lengths[len(acl.name)]:
            del lengths[len(acl.name)]

    def found(self, wanted: AclFilter) -> list[Acl]:
        """Return the rules that fit a filter."""
        return [acl for acl in self.ids if wanted.fits(acl)]

    def patterns_of(self, kind: ResourceType, name: str) -> Iterator[ByPrincipal]:
        """Yield the rules of each pattern that has a resource."""
        literal = self._literal
        found = literal.get((kind, name))
        if found is not None:
            yield found
        if name != WILDCARD and (found := literal.get((kind, WILDCARD))) is not None:
            yield found
        for length in self._lengths.get(kind, ()):
            # A prefix that is longer than the name is not equal to a part of it.
            found = self._prefixed.get((kind, name[:length]))
            if found is not None and length <= len(name):
                yield found

    def of_principals(self, kind: ResourceType, principals: tuple[str, ...]) -> Iterator[Acl]:
        """Yield the rules of some principals for resources of a type."""
        for patterns in (self._literal, self._prefixed):
            for (of_kind, _), by_principal in patterns.items():
                if of_kind == kind:
                    for principal in principals:
                        yield from by_principal.get(principal, ())


def record_of(acl: Acl, acl_id: bytes) -> AccessControlEntryRecord:
    """Return the record of a rule."""
    return AccessControlEntryRecord.of(acl_id, *acl)
