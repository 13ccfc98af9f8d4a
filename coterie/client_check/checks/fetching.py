"""Fetch and Metadata that are refused for a while."""

from coterie.client_check.checks.rejoining import read_more
from coterie.client_check.model import Check, Judgement, NotReached, scenario
from coterie.client_check.run import Run
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError

_LIMIT_S = 20.0


async def _fetch_refused(run: Run, goes_on: str, asks: str, error: ErrorCode) -> None:
    """Refuse a Fetch; the client must ask for metadata, and go on where it was.

    Args:
        run: the run.
        goes_on, asks: the checks.
        error: the error.
    """
    await run.start()
    await run.stable()
    end = await read_more(run)
    rule = run.rule(AnswerError(error), "Fetch")
    refused = await run.hit(rule, "sent a Fetch")
    asked = await run.until(lambda: run.talk.first("Metadata", after=refused.place), _LIMIT_S)
    if asks:
        run.check(asks, asked, "it goes on without Metadata", Judgement.DIFFERS)
    await read_more(run)
    moved = [
        each
        for each in run.talk.of("Fetch", after=refused.place)
        if any(offset < end for offset in run.positions(each).values())
    ]
    reason = f"it reads from {min(run.positions(moved[0]).values())} again" if moved else ""
    run.check(goes_on, not moved, reason, Judgement.DIFFERS)


@scenario(
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
async def not_leader(run: Run) -> None:
    """The broker does not lead the partitions any more."""
    await _fetch_refused(
        run,
        "fetching/goes-on-after-new-leader",
        "fetching/asks-for-new-leader",
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )


@scenario(
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
async def unknown_topic(run: Run) -> None:
    """The broker does not know the topic for a moment."""
    await _fetch_refused(
        run,
        "fetching/goes-on-after-unknown-topic",
        "fetching/asks-for-unknown-topic",
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


@scenario(
    Check(
        "fetching/goes-on-after-unknown-epoch",
        "After UNKNOWN_LEADER_EPOCH (75) the client reads on where it was.",
        "KIP-320; [data-plane/current-leader-epoch]",
        ("version:Fetch>=9",),
    )
)
async def unknown_epoch(run: Run) -> None:
    """The broker has not heard of the leader epoch yet."""
    name = "fetching/goes-on-after-unknown-epoch"
    await _fetch_refused(run, name, "", ErrorCode.UNKNOWN_LEADER_EPOCH)


@scenario(
    Check(
        "fetching/goes-on-after-disk-failure",
        "After KAFKA_STORAGE_ERROR (56) the client reads on where it was.",
        "KIP-112",
        ("version:Fetch>=6",),
    )
)
async def storage_error(run: Run) -> None:
    """The broker's disk has failed."""
    name = "fetching/goes-on-after-disk-failure"
    await _fetch_refused(run, name, "", ErrorCode.KAFKA_STORAGE_ERROR)


async def _begins(run: Run, name: str) -> None:
    """Let a check pass if the client begins to read; a program that reports the error differs."""
    await run.start()
    try:
        await run.stable()
    except NotReached as early:
        if run.program.exit_code is not None:
            run.verdict(name, Judgement.DIFFERS, str(early))
        raise
    run.passes(name)


@scenario(
    Check(
        "metadata/asks-until-leader",
        "After LEADER_NOT_AVAILABLE (5) the client asks for metadata again.",
        "[topics/offline-partitions]",
    )
)
async def no_leader(run: Run) -> None:
    """The topic has no leader three times."""
    run.rule(AnswerError(ErrorCode.LEADER_NOT_AVAILABLE), "Metadata", times=3)
    await _begins(run, "metadata/asks-until-leader")


@scenario(
    Check(
        "metadata/asks-until-topic",
        "After UNKNOWN_TOPIC_OR_PARTITION (3) the client asks for metadata again.",
        "Metadata of Kafka's clients",
    )
)
async def no_topic(run: Run) -> None:
    """The topic is not known three times."""
    run.rule(AnswerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "Metadata", times=3)
    await _begins(run, "metadata/asks-until-topic")
