"""Rules as texts of one line, for options and commands [security/acl-text].

`User:alice ALLOW READ TOPIC orders- PREFIXED host=10.0.0.1`; the pattern type is LITERAL and the
host `*` if they are not named, and the cluster has no name.
"""

from enum import IntEnum
from typing import TypeVar

from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.resources import ResourceType
from coterie.security.acl import ANY_HOST, CLUSTER_NAME, Acl, PatternType, Permission

E = TypeVar("E", bound=IntEnum)

_HOST = "host="
# Codes that no rule has.
_NOT_IN_RULES = ("UNKNOWN", "ANY", "MATCH")
_FORM = 'such as "User:alice ALLOW READ TOPIC orders- PREFIXED host=*"'


class InvalidAcl(ValueError):  # noqa: N818 - it describes the text
    """A text is no rule; the exception says why."""


def parse_acl(text: str) -> Acl:
    """Return the rule of a text.

    Raises:
        InvalidAcl: the text is none.
    """
    words = text.split()
    host = ANY_HOST
    if words and words[-1].startswith(_HOST):
        host = words.pop()[len(_HOST) :]
    if len(words) < 4:
        raise InvalidAcl(f"{text!r} is not a rule {_FORM}")
    principal, permission, operation, kind, *resource = words
    if ":" not in principal:
        raise InvalidAcl(f"{text!r}: {principal!r} has no type; write User:{principal}")
    resource_type = code(ResourceType, kind, text)
    if resource_type is ResourceType.CLUSTER and not resource:
        resource = [CLUSTER_NAME]
    if not 1 <= len(resource) <= 2:
        raise InvalidAcl(f"{text!r} needs one name and perhaps a pattern type, {_FORM}")
    if resource_type is ResourceType.CLUSTER and resource[0] != CLUSTER_NAME:
        raise InvalidAcl(f"{text!r}: the only name of a cluster is {CLUSTER_NAME}")
    pattern = code(PatternType, resource[1], text) if len(resource) > 1 else PatternType.LITERAL
    return Acl(
        resource_type,
        resource[0],
        pattern,
        principal,
        host,
        code(AclOperation, operation, text),
        code(Permission, permission, text),
    )


def code(codes: type[E], word: str, text: str) -> E:
    """Return the code that a word of a rule stands for; case and hyphens do not matter.

    Raises:
        InvalidAcl: there is none.
    """
    names = [each.name for each in codes if each.name not in _NOT_IN_RULES]
    name = word.upper().replace("-", "_")
    if name not in names:
        raise InvalidAcl(f"{text!r}: {word!r} is none of {', '.join(names)}")
    return codes[name]


def acl_text(acl: Acl) -> str:
    """Return a rule as text; `parse_acl` reads it."""
    return (
        f"{acl.principal} {name_of(Permission, acl.permission)} "
        f"{name_of(AclOperation, acl.operation)} {name_of(ResourceType, acl.resource_type)} "
        f"{acl.name} {name_of(PatternType, acl.pattern_type)} {_HOST}{acl.host}"
    )


def name_of(codes: type[IntEnum], number: int) -> str:
    """Return the name of a code, or its number if it has none."""
    return codes(number).name if number in set(map(int, codes)) else str(number)
