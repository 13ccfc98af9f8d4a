"""Brokers with one planted bug each: at least one check must find it.

    python -m tests.conformance.mutants [NAME...]      (make conformance-mutants)

The bugs are those of the simulation and of the transcripts, planted into the core, those of the
transaction coordinator, those of share partitions, some of the handlers of records and topics,
those of logins and rights, on a broker that has an authorizer, and those of several brokers. Each
is served to the checks in virtual time. First the check about the broken rule runs, then, if it
passes, all others.
"""

import asyncio
import io
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import redirect_stderr
from typing import Any, NamedTuple

from coterie.conformance.checks.check import Check
from coterie.conformance.checks.registry import all_checks
from coterie.conformance.checks.runner import CheckOutcome
from coterie.conformance.results import Status
from tests.conformance.brokers import outcomes_at_a_cluster, outcomes_of
from tests.conformance.cluster_plants import CLUSTER_PLANTS
from tests.conformance.plants import PLANTS as SERVER_PLANTS
from tests.conformance.security_plants import SECURITY_PLANTS
from tests.conformance.share_plants import SHARE_PLANTS
from tests.conformance.transaction_plants import TRANSACTION_PLANTS
from tests.planting import Plant, planted
from tests.simulation.plants import PLANTS
from tests.transcripts.test_planted_bugs import MORE_PLANTS, TRANSCRIPTS

_BAD = (Status.DEVIATES, Status.FAILS)

# What a run of checks comes to.
Outcomes = Coroutine[Any, Any, tuple[list[CheckOutcome], list[str]]]

# Bugs that no client can see in a broker that neither crashes nor restarts, and why.
_CRASH = "shows after a crash only"
_RESTART = "shows after a restart only"
_DISK = "needs a disk that fails"
_WEEK = "needs a week"
_IDLE = "a timer that is left acts on nothing"
_ORDER = "needs an order of events that clients cannot bring about"
INVISIBLE: dict[str, str] = {
    "the assignment is sent before it is durable": _CRASH,
    "a reply leaves before its records are durable": _CRASH,
    "a read does not wait for earlier appends": _CRASH,
    "a repeated sync of the leader is logged again": _RESTART,
    "a group without members is not logged": _RESTART,
    "a restart loses the assignments": _RESTART,
    "a restart loses the leader": _RESTART,
    "members of a loaded group have no session timer": _RESTART,
    "heartbeats are refused while loading": _RESTART,
    "delayed requests are not answered when an append fails": _DISK,
    "the groups of the partition stay when an append fails": _DISK,
    "the requests that wait for a failed append are not answered": _DISK,
    "errors of appends are not translated": _DISK,
    "offsets expire while their topic is subscribed": _WEEK,
    "the sweep timer is not armed again": _WEEK,
    "the timer of a pending id outlives its join": _IDLE,
    "the sync timer is not cancelled when all have synced": _IDLE,
    "the session of a removed member is not cancelled": _IDLE,
    "a pending id that leaves keeps its timer": _IDLE,
    "the timers of a deleted group's pending ids are not cancelled": _IDLE,
    "an assignment is accepted for another generation": _ORDER,
    "the sync of a replaced member is not awaited": _ORDER,
}

# By the name of a bug, the check that finds it where the transcript of its rule needs the core.
FINDERS = {
    "a new member expires after its session timeout": "sync/followers_never_sync",
    "a new member extends the initial delay more than once": (
        "initial_delay/leaving_does_not_end_the_delay"
    ),
    "the initial delay is extended beyond the rebalance timeout": (
        "initial_delay/unused_extension_lengthens_the_next_delay"
    ),
    "timers of coarse levels fire one tick late": (
        "offsets/delete_offsets_before_the_first_generation"
    ),
}


class Found(NamedTuple):
    """What became of a planted bug: the check that found it, or None, and the seconds it took."""

    plant: Plant
    check: str | None
    seconds: float


def visible_plants() -> list[Plant]:
    """Return every bug that a client can see."""
    plants = [*PLANTS, *(plant for plant, _ in MORE_PLANTS), *SERVER_PLANTS]
    plants += (*TRANSACTION_PLANTS, *SHARE_PLANTS, *SECURITY_PLANTS, *CLUSTER_PLANTS)
    return [plant for plant in plants if plant.name not in INVISIBLE]


def first_check(plant: Plant) -> str:
    """Return the name of the check that is most likely to find a bug; empty if unknown."""
    transcripts = TRANSCRIPTS | {each.name: path for each, path in MORE_PLANTS}
    return FINDERS.get(plant.name, transcripts.get(plant.name, (*plant.kinds, "")[0]))


def find(plant: Plant) -> Found:
    """Serve a bug to the checks until one finds it."""
    began_s = time.perf_counter()
    secured = plant in SECURITY_PLANTS
    brokers = 3 if plant in CLUSTER_PLANTS else 1
    checks = [
        each
        for each in all_checks()
        if (secured or not each.mechanisms) and (brokers == 1 or each.brokers == brokers)
    ]
    likely = [each for each in checks if each.situation == first_check(plant)]
    config = {"group.max.size": "2"} if "size" in plant.name else {}
    level = 1 if plant.name.startswith("at level 1 ") else None

    def outcomes(some: list[Check]) -> Outcomes:
        if brokers > 1:
            return outcomes_at_a_cluster(some)
        return outcomes_of(some, config, transaction_level=level, secured=secured)

    with planted(plant):
        found = _first_bad(likely, outcomes) or _first_bad(checks, outcomes)
    return Found(plant, found, time.perf_counter() - began_s)


def _first_bad(checks: list[Check], run: Callable[[list[Check]], Outcomes]) -> str | None:
    if not checks:
        return None
    try:
        outcomes, _ = asyncio.run(run(checks))
    except Exception as error:
        return f"the broker: {type(error).__name__}"
    return next((each.check.name for each in outcomes if each.status in _BAD), None)


def main(names: list[str]) -> int:
    """Print what finds each bug; return 1 if one is not found."""
    missed = 0
    for plant in visible_plants():
        if names and not any(name in plant.name for name in names):
            continue
        # What the broker says of its bug is no finding.
        with redirect_stderr(io.StringIO()):
            found = find(plant)
        missed += found.check is None
        where = found.check or "NOT FOUND"
        sys.stdout.write(f"{found.seconds:6.1f} s  {plant.name}: {where}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{missed} bugs were not found\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
