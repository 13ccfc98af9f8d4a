"""The text of a JAAS configuration: what Kafka reads, and what it refuses.

Rules: [security/login-settings].
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.security.jaas import (
    OAUTHBEARER_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    JaasError,
    parse_jaas,
)


def test_users_of_plain() -> None:
    text = f"""
        {PLAIN_MODULE} required  // the broker
            username="admin" password='admin-secret'
            user_alice="a\\"b; = // c"
            /* two
               lines */
            user_bob=plain-word_1.x;
    """
    found = parse_jaas(text)
    assert found.name == PLAIN_MODULE
    assert found.users == {"alice": 'a"b; = // c', "bob": "plain-word_1.x"}
    assert found.options["password"] == "admin-secret"


@pytest.mark.parametrize("module", [SCRAM_MODULE, OAUTHBEARER_MODULE])
@pytest.mark.parametrize("flag", ["required", "REQUISITE", "sufficient", "optional"])
def test_a_module_without_options(module: str, flag: str) -> None:
    assert parse_jaas(f"{module} {flag};") == (module, {})


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "class of a login module is missing"),
        ("com.example.Evil required;", "not one of PlainLoginModule"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "not one of"),
        (f"{PLAIN_MODULE};", "is missing"),
        (f"{PLAIN_MODULE} perhaps;", "is one of required"),
        (f"{PLAIN_MODULE} required", "does not end with ;"),
        (f'{PLAIN_MODULE} required user_a "x";', "no = behind"),
        (f"{PLAIN_MODULE} required user_a=;", "value of an option is missing"),
        (f"{PLAIN_MODULE} required user_a=12;", "no word"),
        (f'{PLAIN_MODULE} required user_a="x;', "no word"),
        (f"{PLAIN_MODULE} required; {PLAIN_MODULE} required;", "more than one"),
    ],
)
def test_everything_else_is_refused(text: str, error: str) -> None:
    with pytest.raises(JaasError, match=error):
        parse_jaas(text)


def test_an_error_shows_no_password() -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas(f'{PLAIN_MODULE} required user_a="planted" user_b="planted" 7')
    assert "planted" not in str(refused.value)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.text(), max_size=3))
def test_any_password_can_be_quoted(users: dict[str, str]) -> None:
    quoted = {
        name: password.replace("\\", "\\\\")
        .replace('"', '\\"')
        .replace("\n", "\\n")
        .replace("\r", "\\r")
        for name, password in users.items()
    }
    options = " ".join(f'user_{name}="{password}"' for name, password in quoted.items())
    assert parse_jaas(f"{PLAIN_MODULE} required {options};").users == users


@given(st.text())
def test_garbage_is_refused_and_raises_nothing_else(text: str) -> None:
    with pytest.raises(JaasError):
        parse_jaas(f"{PLAIN_MODULE} {text}=")
