"""DescribeClientQuotas and AlterClientQuotas; texts of Kafka 4.3.1."""

import math
from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
)
from coterie.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
)
from coterie.server.quotas import client_quotas
from coterie.server.quotas.checks import ANY, DEFAULT, EXACT
from tests.unit.server.manual import Client, make_broker, restarted

Parts = tuple[tuple[str, str | None], ...]
RATE = "producer_byte_rate"
ALICE: Parts = (("user", "alice"),)
ALICE_APP: Parts = (("client-id", "app"), ("user", "alice"))
ANY_USER: Parts = (("user", None),)
HERE: Parts = (("ip", "127.0.0.1"),)


@pytest.fixture
def client() -> Client:
    return Client(make_broker())


def entry(entity: Parts, *ops: tuple[str, float | None]) -> AlterClientQuotasRequestEntry:
    return AlterClientQuotasRequestEntry(
        entity=[
            AlterClientQuotasRequestEntity(entity_type=kind, entity_name=name)
            for kind, name in entity
        ],
        ops=[
            AlterClientQuotasRequestOp(key=key, value=value or 0.0, remove=value is None)
            for key, value in ops
        ],
    )


def alter(
    client: Client, *entries: AlterClientQuotasRequestEntry, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    answer = client.call(request, 1)
    return [(each.error_code, each.error_message) for each in answer.entries]


def describe(client: Client, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    request = DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequestComponent(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ],
        strict=strict,
    )
    return client.call(request, 1)


def found(
    client: Client, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[Parts, dict[str, float]]:
    answer = describe(client, *components, strict=strict)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in answer.entries
    }


def test_quotas_survive_a_restart_until_they_are_removed(client: Client) -> None:
    """[quotas/entities]"""
    assert (
        alter(
            client,
            entry(ALICE, (RATE, 1000), ("request_percentage", 12.5)),
            entry(HERE, ("connection_creation_rate", 3)),
        )
        == [(0, None)] * 2
    )
    again = Client(restarted(client.broker, killed=True))
    assert found(again) == {
        ALICE: {RATE: 1000.0, "request_percentage": 12.5},
        HERE: {"connection_creation_rate": 3.0},
    }
    removals = [entry(ALICE, (RATE, None)), entry(HERE, ("connection_creation_rate", None))]
    assert alter(again, *removals) == [(0, None)] * 2
    assert found(Client(restarted(again.broker, killed=False))) == {
        ALICE: {"request_percentage": 12.5}
    }


def test_filters(client: Client) -> None:
    """[quotas/filters]"""
    for entity in (ALICE, ALICE_APP, ANY_USER):
        alter(client, entry(entity, (RATE, 1)))
    assert found(client).keys() == {ALICE, ALICE_APP, ANY_USER}
    assert found(client, strict=True).keys() == set()
    assert found(client, ("user", EXACT, "alice")).keys() == {ALICE, ALICE_APP}
    assert found(client, ("user", EXACT, "alice"), strict=True).keys() == {ALICE}
    assert found(client, ("user", DEFAULT, None)).keys() == {ANY_USER}
    assert found(client, ("user", ANY, None), strict=True).keys() == {ALICE, ANY_USER}
    assert found(client, ("client-id", ANY, None)).keys() == {ALICE_APP}
    assert found(client, ("ip", ANY, None)).keys() == set()


@pytest.mark.parametrize(
    ("components", "error", "text"),
    [
        ([("foo", ANY, None)], 35, "Unsupported entity type foo"),
        ([("", ANY, None)], 42, "Invalid empty entity type."),
        ([("user", 7, None)], 42, "Unknown match type 7"),
        (
            [("user", ANY, None), ("user", EXACT, "a")],
            42,
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [("user", EXACT, None)],
            42,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", DEFAULT, "a")],
            42,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("user", ANY, "a")],
            42,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        (
            [("ip", ANY, None), ("user", ANY, None)],
            42,
            (
                "Invalid entity filter component combination. IP filter component should not be"
                " used with user or clientId filter component."
            ),
        ),
    ],
)
def test_a_filter_is_refused(
    client: Client, components: list[tuple[str, int, str | None]], error: int, text: str
) -> None:
    answer = describe(client, *components)
    assert (answer.error_code, answer.error_message, answer.entries) == (error, text, None)


@pytest.mark.parametrize(
    ("entity", "key", "value", "text"),
    [
        (ALICE, "nonsense", 1, "Invalid configuration key nonsense"),
        (
            ALICE,
            "connection_creation_rate",
            1,
            "Invalid configuration key connection_creation_rate",
        ),
        (HERE, RATE, 1, "Invalid configuration key producer_byte_rate"),
        ((), RATE, 1, "Invalid empty client quota entity"),
        ((("client-id", ""),), RATE, 1, "Empty client-id not supported"),
        ((("foo", "a"),), RATE, 1, "Unhandled client quota entity type: foo"),
        (
            (("ip", "no address"),),
            "connection_creation_rate",
            1,
            "no address is not a valid IP or resolvable host.",
        ),
        (
            (("ip", "127.0.0.1"), ("user", "a")),
            RATE,
            1,
            (
                "Invalid quota entity combination, IP entity shouldnot be combined with User or"
                " ClientId"
            ),
        ),
        (ALICE, RATE, -1, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, RATE, math.nan, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, RATE, 1.5, "producer_byte_rate cannot be a fractional value."),
        (ALICE, RATE, 1e30, "Proposed value for producer_byte_rate is too large for a LONG."),
        (ALICE, "request_percentage", math.inf, "Quota request_percentage must be finite"),
        (
            HERE,
            "connection_creation_rate",
            2**31,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_a_change_is_refused(
    client: Client, entity: Parts, key: str, value: float, text: str
) -> None:
    """[quotas/alter-checks]"""
    good = entry(ANY_USER, (RATE, 5))
    refused, accepted = alter(client, entry(entity, (key, value)), good)
    assert refused == (ErrorCode.INVALID_REQUEST, text)
    assert accepted == (ErrorCode.NONE, None)
    assert found(client) == {ANY_USER: {RATE: 5.0}}


def test_what_is_named_twice_is_refused(client: Client) -> None:
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=app, user=alice})"
    refused = [(ErrorCode.INVALID_REQUEST, text)]
    twice = [entry(ALICE_APP, (RATE, 1)), entry(tuple(reversed(ALICE_APP)), (RATE, 2))]
    assert alter(client, *twice) == refused
    assert alter(client, entry(ALICE_APP, (RATE, 1), (RATE, 2))) == refused
    assert found(client) == {}


def test_validation_and_unknown_removals_change_nothing(client: Client) -> None:
    assert alter(client, entry(ALICE, (RATE, 1)), validate_only=True) == [(0, None)]
    assert alter(client, entry(ALICE, ("nonsense", None))) == [(0, None)]
    assert found(client) == {}


def test_localhost_is_an_address(client: Client) -> None:
    """[quotas/addresses]"""
    entity = (("ip", "localhost"),)
    assert alter(client, entry(entity, ("connection_creation_rate", 3))) == [(0, None)]


def test_the_number_of_entities_is_limited(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """[quotas/limit]"""
    monkeypatch.setattr(client_quotas, "MAX_ENTITIES", 1)
    entries = [entry(ALICE, (RATE, 1)), entry(ANY_USER, (RATE, 1))]
    text = "At most 1 entities may have quotas."
    assert alter(client, *entries) == [(ErrorCode.POLICY_VIOLATION, text)] * 2
    assert alter(client, entries[0]) == [(0, None)]
