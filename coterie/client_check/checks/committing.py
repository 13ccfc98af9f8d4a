"""Commits and fetches of offsets that are refused for a while."""

from coterie.client_check.conversation import ClientExchange
from coterie.client_check.membership import BOTH
from coterie.client_check.model import Check, Judgement, NotReached, scenario
from coterie.client_check.run import Run
from coterie.client_check.script import Action, SetFields
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError

# A client that commits every five seconds has another chance by then.
_COMMIT_LIMIT_S = 25.0
_COMMITTED = 3


def _commit_check(name: str, sentence: str, source: str) -> Check:
    return Check(name, sentence, source, ("commits",))


async def _refused(run: Run, error: ErrorCode) -> ClientExchange:
    """Refuse a commit; return it."""
    rule = run.rule(AnswerError(error), "OffsetCommit")
    await run.begin()
    await run.read_more()
    return await run.reached(
        lambda: next(iter(rule.hits), None), "committed", _COMMIT_LIMIT_S, Judgement.SKIPPED
    )


async def _commits_again(run: Run, refused: ClientExchange) -> ClientExchange:
    wanted = run.committed(refused)

    def again() -> ClientExchange | None:
        for each in run.talk.of("OffsetCommit", after=refused.answered_place):
            offsets = run.committed(each)
            if all(offsets.get(one, -1) >= offset for one, offset in wanted.items()):
                return each
        return None

    return await run.reached(again, "committed these offsets again", _COMMIT_LIMIT_S)


@scenario(
    _commit_check(
        "committing/retries-while-loading",
        "After COORDINATOR_LOAD_IN_PROGRESS (14) the client commits again.",
        "[offsets/commit-errors]",
    ),
    protocols=BOTH,
)
async def commit_while_loading(run: Run) -> None:
    """The coordinator loads the group when the client commits."""
    refused = await _refused(run, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    await _commits_again(run, refused)
    run.passes(run.name)


@scenario(
    _commit_check(
        "committing/looks-up-on-not-coordinator",
        "After NOT_COORDINATOR (16) to a commit the client asks who coordinates the group.",
        "[offsets/commit-errors]",
    ),
    _commit_check(
        "committing/retries-on-not-coordinator",
        "After NOT_COORDINATOR (16) the client commits again.",
        "[offsets/commit-errors]",
    ),
    protocols=BOTH,
)
async def commit_not_coordinator(run: Run) -> None:
    """The broker is not the coordinator any more when the client commits."""
    refused = await _refused(run, ErrorCode.NOT_COORDINATOR)
    await _commits_again(run, refused)
    run.passes("committing/retries-on-not-coordinator")
    found = run.talk.first("FindCoordinator", after=refused.place)
    run.check(
        "committing/looks-up-on-not-coordinator",
        found,
        "it commits again without FindCoordinator",
        Judgement.DIFFERS,
    )


@scenario(
    _commit_check(
        "committing/goes-on-in-rebalance",
        "After REBALANCE_IN_PROGRESS (27) to a commit the client joins again or commits later.",
        "[offsets/commit-validation]",
    )
)
async def commit_in_rebalance(run: Run) -> None:
    """A rebalance is under way when the client commits."""
    refused = await _refused(run, ErrorCode.REBALANCE_IN_PROGRESS)
    run.broker.begin_rebalance(run.group)
    await run.reached(
        lambda: (
            run.joins(refused.place) or run.talk.first("OffsetCommit", after=refused.answered_place)
        ),
        "joined or committed again",
        max(_COMMIT_LIMIT_S, run.heartbeat_limit_s),
    )
    run.passes(run.name)


@scenario(
    _commit_check(
        "committing/not-in-old-generation",
        "After ILLEGAL_GENERATION (22) the client does not commit in that generation again.",
        "[offsets/commit-validation]",
    )
)
async def commit_old_generation(run: Run) -> None:
    """The client's generation is over when it commits."""
    await run.begin()
    await run.read_more()
    generation, member_id = run.identity()
    rule = run.rule(AnswerError(ErrorCode.ILLEGAL_GENERATION), "OffsetCommit", times=None)
    for partition in range(len(run.partitions())):
        await run.broker.produce(run.values["topic"], partition, ["once more"])
    refused = await run.reached(
        lambda: next(iter(rule.hits), None), "committed", _COMMIT_LIMIT_S, Judgement.SKIPPED
    )
    # The group is in a later generation, as the error says.
    run.broker.begin_rebalance(run.group)
    joined = await run.until(lambda: run.joins(refused.place), run.heartbeat_limit_s)
    rule.remove()
    limit = joined[0].place if joined else run.talk.now
    again = [
        each
        for each in run.talk.of("OffsetCommit", after=refused.answered_place, before=limit)
        if each.request.generation_id_or_member_epoch == generation
        and each.at_s > refused.answered_s + 0.3
    ]
    run.check(
        run.name,
        joined and len(again) <= 1,
        f"{len(again)} more commits in generation {generation} as {member_id}"
        if joined
        else "it does not join again",
        Judgement.DIFFERS,
    )


# --- OffsetFetch ----------------------------------------------------------------------------------


async def _fetch_refused(run: Run, action: Action) -> None:
    rule = run.rule(action, "OffsetFetch")
    await run.start()
    refused = await run.hit(rule, "sent OffsetFetch", Judgement.BREAKS)
    again = await run.reached(
        lambda: run.talk.first("OffsetFetch", after=refused.answered_place),
        "sent OffsetFetch again",
        30.0,
    )
    early = run.fetched(after=refused.place, before=again.place)
    run.check(run.name, not early, "it reads before it knows the committed offsets")
    await run.stable()


@scenario(
    Check(
        "positions/retries-while-loading",
        "After COORDINATOR_LOAD_IN_PROGRESS (14) OffsetFetch is sent again before reading.",
        "[offsets/fetch-errors]",
    ),
    protocols=BOTH,
)
async def offsets_while_loading(run: Run) -> None:
    """The coordinator loads the group when the client asks for offsets."""
    await _fetch_refused(run, AnswerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))


@scenario(
    Check(
        "positions/looks-up-on-not-coordinator",
        "After NOT_COORDINATOR (16) to OffsetFetch the client asks who coordinates the group.",
        "[offsets/fetch-errors]",
    ),
    Check(
        "positions/no-reset-on-error",
        "An error to OffsetFetch is not taken for a partition without a committed offset.",
        "[offsets/fetch-errors]",
    ),
    protocols=BOTH,
)
async def offsets_not_coordinator(run: Run) -> None:
    """The broker is not the coordinator any more when the client asks for offsets."""
    await run.member("before").commit(dict.fromkeys(run.partitions(), _COMMITTED))
    rule = run.rule(AnswerError(ErrorCode.NOT_COORDINATOR), "OffsetFetch")
    await run.start()
    refused = await run.hit(rule, "sent OffsetFetch", Judgement.BREAKS)
    try:
        await run.stable()
    except NotReached:
        run.skip("positions/no-reset-on-error", "the client does not begin to read at all")
        raise
    await run.until(lambda: run.fetched() == run.partitions())
    firsts = run.first_positions()
    run.check(
        "positions/no-reset-on-error",
        set(firsts.values()) == {_COMMITTED},
        f"committed is {_COMMITTED}, it starts at {sorted(firsts.values())}",
    )
    found = run.talk.first("FindCoordinator", after=refused.place)
    name = "positions/looks-up-on-not-coordinator"
    run.check(name, found, "it goes on without FindCoordinator", Judgement.DIFFERS)


@scenario(
    Check(
        "positions/waits-for-stable-offsets",
        "After UNSTABLE_OFFSET_COMMIT (88) OffsetFetch is sent again before reading.",
        "KIP-447; [offsets/require-stable]",
        ("version:OffsetFetch>=7",),
    ),
    protocols=BOTH,
)
async def offsets_unstable(run: Run) -> None:
    """A transaction's offsets are pending when the client asks for offsets."""
    # Kafka answers this error for each partition.
    fields = {
        f"{way}topics.partitions.{field}": value
        for way in ("", "groups.")
        for field, value in (
            ("error_code", ErrorCode.UNSTABLE_OFFSET_COMMIT),
            ("committed_offset", -1),
        )
    }
    await _fetch_refused(run, SetFields(fields))
