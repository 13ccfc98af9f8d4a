"""Brokers that are not Kafka: what differs is said once, and what follows from it is not said."""

import pytest

from coterie.conformance.checks.check import Check
from coterie.conformance.checks.registry import all_checks
from coterie.conformance.over_tcp.target import Target
from coterie.conformance.results import Status
from tests.conformance.brokers import outcomes_of
from tests.faults import Function, calling
from tests.planting import Plant, planted

pytestmark = pytest.mark.asyncio

_BAD = (Status.DEVIATES, Status.FAILS)
_GROUPS = [
    each
    for each in all_checks()
    if each.transcript.path.suffix == ".txt" or each.area in ("groups", "transactional_offsets")
]
_FORM = "groups/form_of_member_ids"
_DELAY = "initial_delay/no_response_before_the_delay_ends"
_JOIN = "coterie.coordinator.groups.classic.join:_join_new"
_UUID = "step.partition.new_uuid()"


def _without_dashes(new_uuid: Function) -> Function:
    """Write a UUID as hexadecimal digits alone."""
    return lambda environment: str(new_uuid(environment)).replace("-", "")


# Member ids of other forms than Kafka's: kfake's, and such that begin with no name of a client.
_FORMS = (
    Plant(
        "hexadecimal digits",
        _JOIN,
        fault=calling("coterie.server.environment:Environment.new_uuid_text", _without_dashes),
    ),
    Plant("no client id", _JOIN, f"{{step.context.client.client_id}}-{{{_UUID}}}", f"{{{_UUID}}}"),
    Plant("no instance id", _JOIN, f"{{instance}}-{{{_UUID}}}", f"{{{_UUID}}}"),
    Plant(
        "a name that needs quotes",
        _JOIN,
        f"{{step.context.client.client_id}}-{{{_UUID}}}",
        f"member [{{{_UUID}}}]",
    ),
)


def _share(number: int, of: int, always: str) -> list[Check]:
    """Return every check in `of`, and one that is always there: all checks run on some broker."""
    return [each for at, each in enumerate(_GROUPS) if at % of == number or each.name == always]


@pytest.mark.parametrize("form", _FORMS, ids=lambda plant: plant.name.replace(" ", "-"))
async def test_form_of_member_ids_is_one_deviation(form: Plant) -> None:
    with planted(form):
        outcomes, leftovers = await outcomes_of(
            _share(_FORMS.index(form), len(_FORMS), always=_FORM)
        )
    bad = [(each.check.name, each.reason) for each in outcomes if each.status in _BAD]
    assert [name for name, _ in bad] == [_FORM], bad
    assert not leftovers


@pytest.mark.parametrize("reported", [True, False])
async def test_missing_delay_is_one_deviation(
    monkeypatch: pytest.MonkeyPatch, *, reported: bool
) -> None:
    """A broker without the delay either reports another one than it has, or none."""

    async def read(target: Target) -> None:
        if reported:
            target.settings["group.initial.rebalance.delay.ms"] = "3000"

    monkeypatch.setattr(Target, "_read_settings", read)
    checks = _share(int(reported), 2, always=_DELAY)
    outcomes, _ = await outcomes_of(checks, {"group.initial.rebalance.delay.ms": "0"})
    bad = [(each.check.name, each.reason) for each in outcomes if each.status in _BAD]
    assert [name for name, _ in bad] == [_DELAY], bad
    skipped = {each.reason for each in outcomes if "has 0" in each.reason}
    (reason,) = skipped
    assert reason.startswith("needs group.initial.rebalance.delay.ms=3000, the broker has 0: see ")
    assert reason.endswith(bad[0][0])
