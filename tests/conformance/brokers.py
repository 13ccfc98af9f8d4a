"""Brokers to check, in virtual time and in this process: hundreds of checks take seconds."""

from collections.abc import Callable, Iterable, Mapping

from coterie.address import Address
from coterie.conformance.checks.check import Check
from coterie.conformance.checks.runner import CheckOutcome, Options, Run
from coterie.conformance.over_tcp.target import TRANSACTION_LEVEL, Target
from coterie.conformance.releases import NEWEST
from coterie.testing import Broker

# The settings of `coterie serve` in place of those that brokers for tests have.
DEFAULTS = {
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.session.timeout.ms": "45000",
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
) -> tuple[list[CheckOutcome], list[str]]:
    """Run checks against a broker of ours; return their outcomes and what was left behind.

    Args:
        checks: what to run.
        config: settings of the broker.
        begin: called with the broker before the checks.
        transaction_level: the level of `transaction.version`; None for the highest.
    """
    found: list[CheckOutcome] = []
    features = {} if transaction_level is None else {TRANSACTION_LEVEL: transaction_level}
    with Broker(config={**DEFAULTS, **(config or {})}, features=features) as broker:
        async with broker.virtual_time():
            target = Target(Address(broker.host, broker.port))
            await target.open()
            begin(broker)
            run = Run(target, Options(NEWEST, thorough=True, repeats=0, run_id=RUN_ID))
            await run.all(checks, found.append)
            await target.close()
    return found, run.leftovers
