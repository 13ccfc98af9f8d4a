"""Numbers of threads change in steps [settings/thread-counts]; the answers are Kafka 4.3.1's."""

import pytest

from coterie.protocol.errors import ErrorCode
from tests.unit.server.config_requests import BROKER, DELETE, SET, change
from tests.unit.server.manual import Client, make_broker

IO, CLEANER = "num.io.threads", "log.cleaner.threads"
OK = (ErrorCode.NONE, None)


def refused(reason: str) -> tuple[int, str]:
    text = (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason}"
        " for configuration Invalid dynamic configuration"
    )
    return ErrorCode.INVALID_REQUEST, text


def too_many(name: str, then: int, now: int) -> tuple[int, str]:
    return refused(
        f"Dynamic thread count update validation failed for {name}={then}, value should not be"
        f" greater than double the current value {now}"
    )


def too_few(name: str, then: int, now: int) -> tuple[int, str]:
    return refused(
        f"Dynamic thread count update validation failed for {name}={then}, value should be at"
        f" least half the current value {now}"
    )


@pytest.mark.parametrize("resource", ["1", ""])
def test_a_number_is_doubled_or_halved_at_most(resource: str) -> None:
    client = Client(make_broker())
    assert change(client, BROKER, resource, (IO, SET, "17")) == too_many(IO, 17, 8)
    assert change(client, BROKER, resource, (IO, SET, "3")) == too_few(IO, 3, 8)
    assert change(client, BROKER, resource, (IO, SET, "4"), only=True) == OK
    assert change(client, BROKER, resource, (IO, SET, "16")) == OK
    assert change(client, BROKER, resource, (IO, SET, "32")) == OK
    assert change(client, BROKER, resource, ("num.network.threads", SET, "1")) == OK


def test_the_default_may_be_too_far_away_to_return_to() -> None:
    client = Client(make_broker())
    assert change(client, BROKER, "1", (IO, SET, "4")) == OK
    assert change(client, BROKER, "1", (IO, SET, "2")) == OK
    assert change(client, BROKER, "1", (IO, DELETE, None)) == too_many(IO, 8, 2)


def test_what_the_broker_has_for_itself_counts_before_the_value_of_the_cluster() -> None:
    client = Client(make_broker())
    assert change(client, BROKER, "1", (IO, SET, "4")) == OK
    assert change(client, BROKER, "", (IO, SET, "17")) == OK
    assert change(client, BROKER, "1", (IO, DELETE, None)) == too_many(IO, 17, 4)
    assert change(client, BROKER, "1", ("log.cleaner.backoff.ms", SET, "16000")) == OK


def test_the_cleaner_has_texts_of_its_own() -> None:
    client = Client(make_broker())
    more = "Log cleaner threads cannot be increased to more than double the current value 1"
    assert change(client, BROKER, "", (CLEANER, SET, "3")) == refused(more)
    assert change(client, BROKER, "", (CLEANER, SET, "2")) == OK
    assert change(client, BROKER, "", (CLEANER, SET, "4")) == OK
    fewer = "Log cleaner threads cannot be reduced to less than half the current value 4"
    assert change(client, BROKER, "1", (CLEANER, SET, "1")) == refused(fewer)
    none = change(client, BROKER, "1", (CLEANER, SET, "0"))
    assert none == refused("Log cleaner threads should be at least 1")
