"""Brokers to check, in virtual time and in this process: hundreds of checks take seconds."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.address import Address
from coterie.client.security import OAUTHBEARER, PLAINTEXT, Security
from coterie.conformance.checks.check import Check
from coterie.conformance.checks.runner import CheckOutcome, Options, Run
from coterie.conformance.over_tcp.target import TRANSACTION_LEVEL, Target
from coterie.conformance.releases import NEWEST
from coterie.security.jaas import OAUTHBEARER_MODULE
from coterie.testing import Broker, cluster
from coterie.testing import Security as SecurityOfBroker

# The settings of `coterie serve` in place of those that brokers for tests have.
DEFAULTS = {
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.session.timeout.ms": "45000",
    "group.initial.rebalance.delay.ms": "3000",
    "group.share.assignment.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "5000",
    "group.share.min.heartbeat.interval.ms": "5000",
    "group.share.min.record.lock.duration.ms": "15000",
    "group.share.min.session.timeout.ms": "45000",
    "group.streams.assignment.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.streams.initial.rebalance.delay.ms": "3000",
    "group.streams.min.heartbeat.interval.ms": "5000",
    "group.streams.min.session.timeout.ms": "45000",
    "group.streams.session.timeout.ms": "45000",
    "group.min.session.timeout.ms": "6000",
}
# What the checks of logins and rights need: an administrator, an authorizer and tokens.
ADMINISTRATOR, PASSWORD = "admin", "admin-secret"
_TOKENS_OF_ADMINISTRATOR = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
SECURED: Mapping[str, Any] = {
    "security": SecurityOfBroker("SASL_PLAINTEXT", mechanism="SCRAM-SHA-256"),
    "users": {ADMINISTRATOR: PASSWORD},
    "acls": (),
    "config": {
        "super.users": f"User:{ADMINISTRATOR}",
        "delegation.token.secret.key": "secret of a test",
        "connection.failed.authentication.delay.ms": "100",
        "sasl.enabled.mechanisms": f"PLAIN,SCRAM-SHA-256,{OAUTHBEARER}",
        _TOKENS_OF_ADMINISTRATOR: f"{OAUTHBEARER_MODULE} required;",
    },
}
LOGIN = Security(None, OAUTHBEARER, {"unsecuredLoginStringClaim_sub": ADMINISTRATOR})


def token_login(token_id: str, hmac: bytes) -> Security:
    """Return what a client logs in with that has a delegation token."""
    jaas = {"username": token_id, "password": b64encode(hmac).decode(), "tokenauth": "true"}
    return Security(None, "SCRAM-SHA-256", jaas)


# The names of groups decide in which partition they are: they are the same in each run.
RUN_ID = "0123abcd"


async def outcomes_of(
    checks: Iterable[Check],
    config: Mapping[str, str] | None = None,
    begin: Callable[[Broker], object] = lambda _: None,
    transaction_level: int | None = None,
    *,
    secured: bool = False,
    authorized: bool = True,
) -> tuple[list[CheckOutcome], list[str]]:
    """Run checks against a broker of ours; return their outcomes and what was left behind.

    Args:
        checks: what to run.
        config: settings of the broker.
        begin: called with the broker before the checks.
        transaction_level: the level of `transaction.version`; None for the highest.
        secured: whether the broker has logins and an authorizer; the checks run as a super user.
        authorized: False for a secured broker without the authorizer.
    """
    features = {} if transaction_level is None else {TRANSACTION_LEVEL: transaction_level}
    more: dict[str, Any] = dict(SECURED) if secured else {}
    if not authorized:
        del more["acls"]
    settings = {**DEFAULTS, **more.pop("config", {}), **(config or {})}
    with Broker(config=settings, features=features, **more) as broker:
        async with broker.virtual_time():
            target = Target(Address(broker.host, broker.port), LOGIN if secured else PLAINTEXT)
            await target.open()
            begin(broker)
            return await _run(checks, target)


async def outcomes_at_a_cluster(checks: Iterable[Check]) -> tuple[list[CheckOutcome], list[str]]:
    """Run checks against three brokers of ours; return their outcomes and what was left behind."""
    settings = {**DEFAULTS, "group.initial.rebalance.delay.ms": "0"}
    with cluster(brokers=3, config=settings) as brokers:
        async with brokers.virtual_time():
            host, _, port = brokers.address(1).rpartition(":")
            target = Target(Address(host, int(port)))
            await target.open()
            return await _run(checks, target)


async def _run(checks: Iterable[Check], target: Target) -> tuple[list[CheckOutcome], list[str]]:
    found: list[CheckOutcome] = []
    run = Run(target, Options(NEWEST, thorough=True, repeats=0, run_id=RUN_ID))
    await run.all(checks, found.append)
    await target.close()
    return found, run.leftovers
