"""Brokers to check, in virtual time and in this process: hundreds of checks take seconds."""

from collections.abc import Callable, Iterable, Mapping

from coterie.address import Address
from coterie.conformance.checks.check import Check
from coterie.conformance.checks.runner import Options, Outcome, Run
from coterie.conformance.over_tcp.target import TRANSACTION_LEVEL, Target
from coterie.conformance.releases import NEWEST
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeature,
    UpdateFeaturesResponse,
)
from coterie.testing import Broker

# The settings of `coterie serve` in place of those that brokers for tests have.
DEFAULTS = {
    "group.initial.rebalance.delay.ms": "3000",
    "group.min.session.timeout.ms": "6000",
}
# The names of groups decide in which partition they are: they are the same in each run.
RUN_ID = "0123abcd"


async def outcomes_of(
    checks: Iterable[Check],
    config: Mapping[str, str] | None = None,
    begin: Callable[[Broker], object] = lambda _: None,
    transaction_level: int | None = None,
) -> tuple[list[Outcome], list[str]]:
    """Run checks against a broker of ours; return their outcomes and what was left behind.

    Args:
        checks: what to run.
        config: settings of the broker.
        begin: called with the broker before the checks.
        transaction_level: the level of `transaction.version`; None for the highest.
    """
    found: list[Outcome] = []
    with Broker(config={**DEFAULTS, **(config or {})}) as broker:
        async with broker.virtual_time():
            target = Target(Address(broker.host, broker.port))
            await target.open()
            if transaction_level is not None:
                await _set_transaction_level(target, transaction_level)
                await target.close()
                await target.open()
            begin(broker)
            run = Run(target, Options(NEWEST, thorough=True, repeats=0, run_id=RUN_ID))
            await run.all(checks, found.append)
            await target.close()
    return found, run.leftovers


async def _set_transaction_level(target: Target, level: int) -> None:
    """Downgrade the feature, which begins at its highest level."""
    change = UpdateFeaturesRequestFeature(
        feature=TRANSACTION_LEVEL, max_version_level=level, upgrade_type=SAFE_DOWNGRADE
    )
    request = UpdateFeaturesRequest(feature_updates=[change])
    response = await target.call(request, UpdateFeaturesResponse)
    assert response.error_code == ErrorCode.NONE, response
