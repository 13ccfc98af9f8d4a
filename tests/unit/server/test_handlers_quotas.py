"""Quotas over restarts, and where we differ. [quotas/filters] is in `tests/golden/answers`."""

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
from tests.unit.server.manual import Client, make_broker, restarted

Parts = tuple[tuple[str, str | None], ...]
RATE = "producer_byte_rate"
ALICE: Parts = (("user", "alice"),)
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


def test_a_quota_may_be_no_number(client: Client) -> None:
    """[quotas/no-number]"""
    endless = ("request_percentage", math.inf), ("controller_mutation_rate", math.inf)
    other = (("ip", "10.0.0.9"),)
    no_rate = entry(other, ("connection_creation_rate", math.nan))
    assert alter(client, entry(ALICE, (RATE, math.nan), *endless), no_rate) == [(0, None)] * 2
    stored = found(Client(restarted(client.broker, killed=True)))
    assert math.isnan(stored[ALICE].pop(RATE))
    assert stored[ALICE] == dict(endless)
    assert math.isnan(stored[other]["connection_creation_rate"])


def test_the_number_of_entities_is_limited(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """[quotas/entities]"""
    monkeypatch.setattr(client_quotas, "MAX_ENTITIES", 1)
    entries = [entry(ALICE, (RATE, 1)), entry(ANY_USER, (RATE, 1))]
    text = "At most 1 entities may have quotas."
    assert alter(client, *entries) == [(ErrorCode.POLICY_VIOLATION, text)] * 2
    assert alter(client, entries[0]) == [(0, None)]
