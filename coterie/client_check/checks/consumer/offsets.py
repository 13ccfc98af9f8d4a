"""Commits and fetches of offsets by members of the consumer protocol: ids, epochs, stale epochs."""

from coterie.client_check.membership import CONSUMER
from coterie.client_check.model import Check, Judgement, NotReached, scenario
from coterie.client_check.run import Run
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError

# A client that commits every five seconds has another chance by then.
_COMMIT_LIMIT_S = 25.0


@scenario(
    Check(
        "committing/retries-on-stale-epoch",
        "After STALE_MEMBER_EPOCH (113) the client commits again, with its newest epoch.",
        "KIP-848; [consumer-groups/late-commit]",
        ("commits",),
    ),
    protocols=(CONSUMER,),
)
async def stale_commit(run: Run) -> None:
    """The client's epoch is not the newest one when it commits."""
    rule = run.rule(AnswerError(ErrorCode.STALE_MEMBER_EPOCH), "OffsetCommit")
    await run.begin()
    await run.read_more()
    refused = await run.reached(
        lambda: next(iter(rule.hits), None), "committed", _COMMIT_LIMIT_S, Judgement.SKIPPED
    )
    wanted = run.committed(refused)

    def again() -> bool:
        later = run.all_committed(refused.answered_place)
        return all(later.get(one, -1) >= offset for one, offset in wanted.items())

    try:
        await run.reached(again, "committed these offsets again", _COMMIT_LIMIT_S)
    except NotReached as early:
        run.verdict(run.name, Judgement.DIFFERS, str(early))
    run.passes(run.name)


@scenario(
    Check(
        "positions/states-epoch",
        "OffsetFetch has the member id and the member epoch.",
        "KIP-848; [consumer-groups/commit]",
        ("version:OffsetFetch>=9",),
    ),
    Check(
        "positions/retries-on-stale-epoch",
        "After STALE_MEMBER_EPOCH (113) OffsetFetch is sent again before reading.",
        "KIP-848; [consumer-groups/commit]",
        ("version:OffsetFetch>=9",),
    ),
    protocols=(CONSUMER,),
)
async def stale_fetch(run: Run) -> None:
    """The client's epoch is not the newest one when it asks for offsets."""
    rule = run.rule(AnswerError(ErrorCode.STALE_MEMBER_EPOCH), "OffsetFetch")
    await run.start()
    refused = await run.hit(rule, "sent OffsetFetch", Judgement.BREAKS)
    (group,) = refused.request.groups
    used, wanted = (group.member_epoch, group.member_id), run.identity()
    run.check(
        "positions/states-epoch", used == wanted, f"it has {used}, not {wanted}", Judgement.DIFFERS
    )
    if not group.member_id:
        # A broker refuses only an epoch that it is told.
        run.skip("positions/retries-on-stale-epoch", "its OffsetFetch has no member epoch")
        return
    again = await run.reached(
        lambda: run.talk.first("OffsetFetch", after=refused.answered_place),
        "sent OffsetFetch again",
        run.heartbeat_limit_s,
    )
    early = run.fetched(after=refused.place, before=again.place)
    name = "positions/retries-on-stale-epoch"
    run.check(name, not early, "it reads before it knows the committed offsets")
    await run.stable()
