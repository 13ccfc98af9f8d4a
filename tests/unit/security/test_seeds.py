"""Users that a start adds."""

import pytest

from coterie.security.credentials import Credentials
from coterie.security.seeds import InvalidSeed, new_credential, parse_seed


def test_the_text_is_that_of_kafka_storage() -> None:
    text = 'SCRAM-SHA-256=[name=fixed,password="pen,cil",salt=MTIzc2FsdHk=,iterations=8192]'
    assert parse_seed(text) == (1, "fixed", "pen,cil", b"123salty", 8192)
    assert parse_seed("SCRAM-SHA-512=[password=x,name=u]") == (2, "u", "x", None, 4096)
    assert "pen" not in repr(parse_seed(text))


def test_other_texts_are_refused_without_showing_them() -> None:
    for text in ("", "SCRAM-SHA-1=[name=u,password=planted]", "SCRAM-SHA-256=[name=u,planted]"):
        with pytest.raises(InvalidSeed) as refused:
            parse_seed(text)
        assert "planted" not in str(refused.value)


def test_a_credential_is_stored_once() -> None:
    users = Credentials()
    seed = parse_seed("SCRAM-SHA-256=[name=u,password=x]")
    record = new_credential(seed, users, b"salt")
    assert record is not None
    users.replay(record)
    assert new_credential(seed, users, b"other") is None
    for changed in (seed._replace(password="y"), seed._replace(iterations=5000)):
        assert new_credential(changed, users, b"salt") is not None
    other_salt = seed._replace(salt=b"given")
    found = new_credential(other_salt, users, b"salt")
    assert found is not None
    assert found.salt == b"given"
