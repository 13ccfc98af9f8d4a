"""Random rules that are added and removed, and decisions between the changes, against a model.

The model follows the text of Kafka's documentation: it looks at every rule, and keeps nothing
[security/decisions], [security/any-resource], [security/filters].
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.resources import ResourceType
from coterie.security.acl import Acl, AclFilter, PatternType, Permission
from coterie.security.acl_store import AclStore
from coterie.security.authorizer import Authorizer

NAMES = ["*", "a", "ab", "abc", "b", "hardcode"]
PRINCIPALS = ["User:alice", "User:bob", "User:*", "Group:alice", "User:root"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2"]
KINDS = [ResourceType.TOPIC, ResourceType.GROUP]
OPERATIONS = [each for each in AclOperation if each >= AclOperation.ALL]
IMPLIED = {
    ("READ", "DESCRIBE"),
    ("WRITE", "DESCRIBE"),
    ("DELETE", "DESCRIBE"),
    ("ALTER", "DESCRIBE"),
    ("ALTER_CONFIGS", "DESCRIBE_CONFIGS"),
}

acls = st.builds(
    Acl,
    st.sampled_from(KINDS),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from([Permission.DENY, Permission.ALLOW, Permission.ALLOW, Permission.ALLOW]),
)
questions = st.tuples(
    st.sampled_from(["User:alice", "User:root", "User:*"]),
    st.sampled_from(HOSTS[1:]),
    st.sampled_from(OPERATIONS[1:]),
    st.sampled_from(KINDS),
    st.sampled_from(NAMES),
)
steps = st.lists(
    st.tuples(st.sampled_from(["add", "add", "remove"]), acls, st.lists(questions, max_size=4)),
    max_size=25,
)


def has(acl: Acl, kind: int, name: str) -> bool:
    """Return whether the pattern of a rule has a resource."""
    if acl.resource_type != kind:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in (name, "*")


def concerns(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, "User:*") and acl.host in (host, "*")


def decided(rules: set[Acl], question: tuple[str, str, int, int, str], *, is_open: bool) -> bool:
    principal, host, operation, kind, name = question
    if principal == "User:root":
        return True
    fitting = [each for each in rules if has(each, kind, name)]
    if not fitting:
        return is_open
    own = [each for each in fitting if concerns(each, principal, host)]
    if any(
        each.permission == Permission.DENY and each.operation in (operation, AclOperation.ALL)
        for each in own
    ):
        return False
    return any(
        each.permission == Permission.ALLOW
        and (
            each.operation in (operation, AclOperation.ALL)
            or (AclOperation(each.operation).name, AclOperation(operation).name) in IMPLIED
        )
        for each in own
    )


def decided_for_any(
    rules: set[Acl], question: tuple[str, str, int, int, str], *, is_open: bool
) -> bool:
    principal, host, operation, kind, _ = question
    if decided(rules, (principal, host, operation, kind, "hardcode"), is_open=is_open):
        return True
    own = [
        each
        for each in rules
        if each.resource_type == kind
        and concerns(each, principal, host)
        and each.operation in (operation, AclOperation.ALL)
    ]
    denied = [each for each in own if each.permission == Permission.DENY]
    if any(each.pattern_type == PatternType.LITERAL and each.name == "*" for each in denied):
        return False

    def dominated(acl: Acl) -> bool:
        if acl.pattern_type == PatternType.LITERAL and acl.name == "*":
            return False
        return any(
            acl.name.startswith(each.name)
            if each.pattern_type == PatternType.PREFIXED
            else (acl.pattern_type, acl.name) == (each.pattern_type, each.name)
            for each in denied
        )

    return any(each.permission == Permission.ALLOW and not dominated(each) for each in own)


@given(steps, st.booleans())
@settings(max_examples=300)
def test_decisions_are_those_of_the_model(
    changes: list[tuple[str, Acl, list[tuple[str, str, int, ResourceType, str]]]],
    is_open: bool,
) -> None:
    authorizer = Authorizer(AclStore(), ["User:root"], allows_without_acl=is_open)
    rules: set[Acl] = set()
    for number, (change, acl, asked) in enumerate(changes):
        if change == "add":
            assert authorizer.acls.add(acl, b"%d" % number) == (acl not in rules)
            rules.add(acl)
        elif rules:
            victim = min(rules, key=lambda each: (each != acl, each))
            assert authorizer.acls.remove(authorizer.acls.ids[victim])
            rules.discard(victim)
        for question in asked:
            principal, host, operation, kind, name = question
            rights = authorizer.rights(principal, host)
            for _ in range(2):
                assert rights.may(operation, kind, name) == decided(
                    rules, question, is_open=is_open
                )
                assert rights.may_for_any(operation, kind) == decided_for_any(
                    rules, question, is_open=is_open
                )
        assert set(authorizer.acls.ids) == rules


@given(st.lists(acls, max_size=20), st.data())
def test_filters_find_what_would_apply(rules: list[Acl], data: st.DataObject) -> None:
    authorizer = Authorizer(AclStore())
    for number, acl in enumerate(rules):
        authorizer.acls.add(acl, b"%d" % number)
    kind, name = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(NAMES[1:]))
    found = authorizer.acls.found(AclFilter(kind, name, PatternType.MATCH, None, None, 1, 1))
    assert set(found) == {each for each in rules if has(each, kind, name)}
    for acl in rules:
        assert authorizer.acls.found(AclFilter(*acl)) == [acl]
        either = authorizer.acls.found(acl_filter(acl)._replace(pattern_type=PatternType.ANY))
        assert {each._replace(pattern_type=PatternType.LITERAL) for each in either} == {
            acl._replace(pattern_type=PatternType.LITERAL)
        }
    assert len(authorizer.acls.found(AclFilter(1, None, 1, None, None, 1, 1))) == len(set(rules))


def acl_filter(acl: Acl) -> AclFilter:
    """Return the filter that fits one rule."""
    return AclFilter(*acl)
