"""Fetch and Metadata that are refused for a while."""

from functools import partial

from coterie.client_check.membership import BOTH
from coterie.client_check.model import Check, Judgement, scenario
from coterie.client_check.run import Run
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError

_LIMIT_S = 20.0


async def _fetch_refused(run: Run, error: ErrorCode) -> None:
    """Refuse a Fetch; the client must go on where it was, and ask for metadata if that counts."""
    goes_on, *asks = (each.name for each in run.scenario.checks)
    await run.begin()
    end = await run.read_more()
    rule = run.rule(AnswerError(error), "Fetch")
    refused = await run.hit(rule, "sent a Fetch")
    asked = await run.until(lambda: run.talk.first("Metadata", after=refused.place), _LIMIT_S)
    for name in asks:
        run.check(name, asked, "it goes on without Metadata", Judgement.DIFFERS)
    await run.read_more()
    moved = run.read_again(end, refused.place)
    reason = f"it reads from {min(run.positions(moved).values())} again" if moved else ""
    run.check(goes_on, not moved, reason, Judgement.DIFFERS)


def _refuses_fetch(title: str, error: ErrorCode, *checks: Check) -> None:
    """Register the scenario of a Fetch that is refused."""
    scenario(*checks, title=title, protocols=BOTH)(partial(_fetch_refused, error=error))


_refuses_fetch(
    "The broker does not lead the partitions any more.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Check(
        "fetching/goes-on-after-new-leader",
        "After NOT_LEADER_OR_FOLLOWER (6) the client reads on where it was.",
        "[data-plane/fetch-offset]",
    ),
    Check(
        "fetching/asks-for-new-leader",
        "After NOT_LEADER_OR_FOLLOWER (6) the client asks for metadata.",
        "Fetcher of Kafka's consumer",
    ),
)
_refuses_fetch(
    "The broker does not know the topic for a moment.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    Check(
        "fetching/goes-on-after-unknown-topic",
        "After UNKNOWN_TOPIC_OR_PARTITION (3) to a Fetch the client reads on where it was.",
        "[data-plane/fetch-offset]",
    ),
    Check(
        "fetching/asks-for-unknown-topic",
        "After UNKNOWN_TOPIC_OR_PARTITION (3) to a Fetch the client asks for metadata.",
        "Fetcher of Kafka's consumer",
    ),
)
_refuses_fetch(
    "The broker has not heard of the leader epoch yet.",
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    Check(
        "fetching/goes-on-after-unknown-epoch",
        "After UNKNOWN_LEADER_EPOCH (75) the client reads on where it was.",
        "KIP-320; [data-plane/current-leader-epoch]",
        ("version:Fetch>=9",),
    ),
)
_refuses_fetch(
    "The broker's disk has failed.",
    ErrorCode.KAFKA_STORAGE_ERROR,
    Check(
        "fetching/goes-on-after-disk-failure",
        "After KAFKA_STORAGE_ERROR (56) the client reads on where it was.",
        "KIP-112",
        ("version:Fetch>=6",),
    ),
)


async def refused_at_first(run: Run, api: str, error: ErrorCode, times: int) -> None:
    """Refuse some requests; the client must read then, and one that ends instead differs."""
    run.rule(AnswerError(error), api, times=times)
    await run.start()
    await run.stable_or_differs()
    run.passes(run.name)


def _refuses_metadata(title: str, check: Check, error: ErrorCode) -> None:
    """Register the scenario of Metadata that is refused."""
    scenario(check, title=title, protocols=BOTH)(
        partial(refused_at_first, api="Metadata", error=error, times=3)
    )


_refuses_metadata(
    "The topic has no leader three times.",
    Check(
        "metadata/asks-until-leader",
        "After LEADER_NOT_AVAILABLE (5) the client asks for metadata again.",
        "[topics/partition-states]",
    ),
    ErrorCode.LEADER_NOT_AVAILABLE,
)
_refuses_metadata(
    "The topic is not known three times.",
    Check(
        "metadata/asks-until-topic",
        "After UNKNOWN_TOPIC_OR_PARTITION (3) the client asks for metadata again.",
        "Metadata of Kafka's clients",
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
