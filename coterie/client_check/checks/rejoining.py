"""Heartbeats that are refused: the client joins again, forgets its id, or just goes on."""

from itertools import pairwise

from coterie.client_check.checks.joining import remove_ghost
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.membership import BOTH
from coterie.client_check.model import Check, Judgement, scenario
from coterie.client_check.run import TOPIC, Run
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError

# What a client may still have under way when it learns that it is no member.
_UNDER_WAY_S = 0.3
_SLEEP_S = 9.0


async def _next_error(run: Run, error: ErrorCode) -> ClientExchange:
    """Wait for a heartbeat with an error."""

    def found() -> ClientExchange | None:
        return next((one for one in run.talk.of("Heartbeat") if one.error == error), None)

    return await run.reached(found, f"received {error.name}", run.heartbeat_limit_s)


@scenario(
    Check(
        "rejoining/on-rebalance",
        "After REBALANCE_IN_PROGRESS (27) to a heartbeat the client joins again with its id.",
        "[sessions/heartbeat]",
    ),
    Check(
        "rejoining/new-generation",
        "After a rebalance heartbeats have the new generation.",
        "[sessions/identity-check]",
    ),
    Check(
        "committing/before-rejoin",
        "A client that gives its partitions up for a rebalance commits what it has read before.",
        "KIP-62, ConsumerCoordinator.onJoinPrepare; [offsets/commit-validation]",
        ("commits",),
    ),
)
async def rebalance(run: Run) -> None:
    """The coordinator begins a rebalance."""
    sync = await run.begin()
    end = await run.read_more()
    generation, member_id = run.identity()
    run.broker.begin_rebalance(run.group)
    beat = await _next_error(run, ErrorCode.REBALANCE_IN_PROGRESS)
    join = await run.joined(beat.place)
    name = "rejoining/on-rebalance"
    run.check(name, join.request.member_id == member_id, f"it joins as '{join.request.member_id}'")
    name = "committing/before-rejoin"
    if _is_cooperative(join):
        run.skip(name, "the assignor is cooperative: the client keeps its partitions")
    else:
        committed = run.all_committed(sync.place, join.place)
        behind = [each for each in run.partitions() if committed.get(each, -1) < end]
        run.check(
            name,
            not behind,
            f"the records end at {end}, committed is {sorted(committed.values())}",
            Judgement.DIFFERS,
        )
    await run.stable(generation)
    later = await run.reached(
        lambda: run.talk.first("Heartbeat", after=run.talk.of("SyncGroup")[-1].place),
        "sent a heartbeat after the rebalance",
        run.heartbeat_limit_s,
    )
    used = later.request.generation_id
    run.check(
        "rejoining/new-generation", used == run.identity()[0], f"a heartbeat has generation {used}"
    )


def _is_cooperative(join: ClientExchange) -> bool:
    chosen = join.response.protocol_name if join.response is not None else None
    offered = [each.name for each in join.request.protocols]
    return "cooperative" in (chosen or offered[0])


@scenario(
    Check(
        "rejoining/forgets-unknown-id",
        "After UNKNOWN_MEMBER_ID (25) to a heartbeat the client joins with an empty member id.",
        "[joining/rejoin]",
    ),
    Check(
        "committing/not-with-unknown-id",
        "After UNKNOWN_MEMBER_ID (25) the client does not commit with the id that it has lost.",
        "[offsets/commit-validation]",
        ("commits",),
    ),
    Check(
        "closing/not-with-unknown-id",
        "After UNKNOWN_MEMBER_ID (25) the client does not leave with the id that it has lost.",
        "[sessions/leave]",
    ),
)
async def removed(run: Run) -> None:
    """The client is removed from the group."""
    await run.begin()
    generation, member_id = run.identity()
    await run.broker.expel(run.group, member_id)
    beat = await _next_error(run, ErrorCode.UNKNOWN_MEMBER_ID)
    join = await run.joined(beat.place)
    await run.stable(generation)
    name = "rejoining/forgets-unknown-id"
    reason = f"it joins as {join.request.member_id} first, which is refused again"
    run.check(name, not join.request.member_id, reason, Judgement.DIFFERS)
    name = "committing/not-with-unknown-id"
    late = [
        each
        for each in run.talk.of("OffsetCommit", after=beat.answered_place)
        if each.request.member_id == member_id and each.at_s > beat.answered_s + _UNDER_WAY_S
    ]
    run.check(name, not late, f"{len(late)} commits follow", Judgement.DIFFERS)
    name = "closing/not-with-unknown-id"
    left = run.talk.first("LeaveGroup", after=beat.answered_place)
    run.check(name, left is None, "it sends LeaveGroup", Judgement.DIFFERS)


@scenario(
    Check(
        "rejoining/on-illegal-generation",
        "After ILLEGAL_GENERATION (22) to a heartbeat the client joins again.",
        "[sessions/identity-check]",
    )
)
async def illegal_generation(run: Run) -> None:
    """The coordinator says that the client's generation is over."""
    await run.begin()
    generation, member_id = run.identity()
    rule = run.rule(AnswerError(ErrorCode.ILLEGAL_GENERATION), "Heartbeat")
    beat = await run.hit(rule, "sent a heartbeat")
    await remove_ghost(run, member_id, beat.place)
    await run.stable(generation)
    run.passes(run.name)


@scenario(
    Check(
        "heartbeats/while-processing",
        "Heartbeats go on while the program works on a record for nine seconds.",
        "KIP-62; [sessions/session-timeout]",
        ("prints",),
    ),
    protocols=BOTH,
)
async def slow_record(run: Run) -> None:
    """The program works on one record for nine seconds."""
    await run.begin()
    await run.read_more()
    begin = run.talk.now
    offset = await run.broker.produce(TOPIC, 0, [f"sleep {_SLEEP_S:g}"])
    began_s = run.talk.elapsed_s
    printed = await run.reached(
        lambda: [each for each in run.records() if (each.partition, each.offset) == (0, offset)],
        "printed the record that takes nine seconds",
        _SLEEP_S + 20.0,
        Judgement.SKIPPED,
    )
    line = next(each for each in run.talk.remarks if each.place == printed[0].place)
    if line.at_s - began_s < _SLEEP_S - 1:
        run.skip(run.name, "the program does not work on a record `sleep 9` for nine seconds")
        return
    beats = run.talk.of(run.heartbeat, after=begin, before=printed[0].place)
    times = [began_s, *(each.at_s for each in beats), line.at_s]
    silent_s = max(later - one for one, later in pairwise(times))
    limit_s = run.membership.silence_limit_s(run.profile.session_timeout_ms)
    rejoined = run.joins(begin)
    run.check(
        run.name,
        beats and silent_s < limit_s and not rejoined,
        f"{silent_s:.1f} s pass without a heartbeat, {limit_s:g} s would be too much"
        + (", and it joins again" if rejoined else ""),
    )
