"""From names of certificates to names of users [security/mapping-rules]."""

import pytest

from coterie.security.mapping_rules import InvalidRule, map_name, parse_rules

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U", DUKE, "DUKE@SERVICEUSERS"),
        ("RULE:^cn=(.*?)$/$1/", DUKE, None),
        ("RULE:^cn=(.*?)$/$1/ , DEFAULT", DUKE, DUKE),
        ("RULE:^.*$//", DUKE, ""),
        # The empty match behind everything is replaced, too.
        ("RULE:.*/x/", DUKE, "xx"),
        ("RULE:^CN=(.*?),.*$/$4 $10/", DUKE, "$4 Duke0"),
        (r"RULE:a\/(.)/\$\/$1/", "a/b", "$/b"),
        ("RULE:CN=(x)?.*/[$1]/", "CN=y", "[]"),
        # As in Java: letters of other alphabets are none of these.
        (r"RULE:^CN=(\w+)$/$1/", "CN=ü", None),
        ("", DUKE, None),
        (" DEFAULT ", "", ""),
    ],
)
def test_rules(rules: str, name: str, user: str | None) -> None:
    """Compared with SslPrincipalMapper of Kafka 4.3.1 for 16,000 drawn cases, too."""
    assert map_name(parse_rules(rules), name) == user


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ("default", "'default' is not DEFAULT or RULE"),
        ("DEFAULT/L", "'DEFAULT/L' is not DEFAULT"),
        ("DEFAULT,RULE:a/b/LU", "'RULE:a/b/LU' is not"),
        ("RULE:a/b", "is not DEFAULT or RULE:pattern/replacement/"),
        ("RULE:((/b/", "the pattern '((' cannot be used"),
        ("RULE:(a)/$/", "is not followed by the number of a group"),
        ("RULE:a/$1/", "the pattern has no group"),
    ],
)
def test_rules_that_cannot_be_used(rules: str, text: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        parse_rules(rules)
    assert text in str(caught.value)
