"""Joins that are refused, for a while or for good, in both protocols; and SyncGroup."""

from functools import partial

from coterie.client.errors import error_name
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.membership import BOTH, CLASSIC
from coterie.client_check.model import Check, Judgement, scenario
from coterie.client_check.run import Run
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError, CloseAfter

# How long a client is watched that has got an error which repeating does not cure.
_WATCHED_S = 5.0
# More attempts than that in five seconds are a load for the broker.
_MANY_JOINS = 20
_SLOW_REBALANCE_S = 12.0
_VERY_SLOW_REBALANCE_S = 40.0


async def refused_once(run: Run, api: str, error: ErrorCode, skip: int = 0) -> ClientExchange:
    """Answer one request with an error; return it."""
    rule = run.rule(AnswerError(error), api, skip=skip)
    await run.start()
    return await run.hit(rule, f"sent {api}", Judgement.BREAKS)


async def remove_ghost(run: Run, old_id: str, after: int) -> ClientExchange:
    """Wait for the next JoinGroup; if it has another id, remove the old member from the group.

    A client that has forgotten its id would otherwise wait for itself.
    """
    join = await run.joined(after, "joined the group again", run.heartbeat_limit_s)
    if old_id and join.request.member_id != old_id:
        await run.broker.expel(run.group, old_id)
    return join


@scenario(
    Check(
        "joining/retries-while-loading",
        "After COORDINATOR_LOAD_IN_PROGRESS (14) the client joins again.",
        "[coordinator/availability]",
    ),
    protocols=BOTH,
)
async def join_while_loading(run: Run) -> None:
    """The coordinator loads the group when the client joins."""
    await refused_once(run, run.membership.join, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    await run.stable()
    run.passes(run.name)


@scenario(
    Check(
        "joining/looks-up-on-not-coordinator",
        "After NOT_COORDINATOR (16) the client looks the coordinator up and joins there.",
        "[coordinator/availability]",
    ),
    protocols=BOTH,
)
async def join_not_coordinator(run: Run) -> None:
    """The broker is not the coordinator when the client joins."""
    join = await refused_once(run, run.membership.join, ErrorCode.NOT_COORDINATOR)
    await run.stable()
    found = run.talk.first("FindCoordinator", after=join.place)
    run.check(run.name, found, "it joins again without FindCoordinator")


@scenario(
    Check(
        "joining/looks-up-on-not-available",
        "After COORDINATOR_NOT_AVAILABLE (15) the client looks the coordinator up and joins.",
        "[coordinator/availability]",
    ),
    protocols=BOTH,
)
async def join_not_available(run: Run) -> None:
    """The coordinator is not available when the client joins."""
    join = await refused_once(run, run.membership.join, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await run.stable()
    found = run.talk.first("FindCoordinator", after=join.place)
    run.check(run.name, found, "it joins again without FindCoordinator", Judgement.DIFFERS)


@scenario(
    Check(
        "joining/forgets-unknown-id",
        "After UNKNOWN_MEMBER_ID (25) the client joins with an empty member id.",
        "[joining/rejoin]",
        ("version:JoinGroup>=4",),
    )
)
async def join_unknown_id(run: Run) -> None:
    """The coordinator does not know the id with which the client joins."""
    join = await refused_once(run, "JoinGroup", ErrorCode.UNKNOWN_MEMBER_ID, skip=1)
    again = await run.joined(join.place)
    old_id = join.request.member_id
    run.check(run.name, not again.request.member_id, f"it joins as {again.request.member_id} again")
    await run.broker.expel(run.group, old_id)
    await run.stable()


async def refused_for_good(run: Run, error: ErrorCode) -> None:
    """Refuse each attempt to join; the client must not repeat it many times."""
    rule = run.rule(AnswerError(error), run.membership.join, times=None)
    await run.start()
    await run.hit(rule, "joined the group", Judgement.BREAKS)
    await run.sleep(_WATCHED_S)
    count = len(rule.hits)
    run.check(
        run.name,
        count <= _MANY_JOINS // 4,
        f"it joins {count} times in {_WATCHED_S:g} s, each answered with {error.name}",
        Judgement.BREAKS if count > _MANY_JOINS else Judgement.DIFFERS,
    )


def refuses_for_good(
    title: str, check: Check, error: ErrorCode, protocols: tuple[str, ...] = BOTH
) -> None:
    """Register the scenario of a join that is refused for good."""
    scenario(check, title=title, protocols=protocols)(partial(refused_for_good, error=error))


refuses_for_good(
    "The group has other protocols.",
    Check(
        "joining/accepts-inconsistent-protocol",
        "After INCONSISTENT_GROUP_PROTOCOL (23) the client stops, or tries again slowly.",
        "[joining/protocol-admission]",
    ),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    (CLASSIC,),
)
refuses_for_good(
    "The group is full.",
    Check(
        "joining/accepts-full-group",
        "After GROUP_MAX_SIZE_REACHED (81) the client stops, or tries again slowly.",
        "KIP-389; [joining/size-gate], [consumer-groups/order-of-checks]",
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED,
)
refuses_for_good(
    "The client may not use the group.",
    Check(
        "joining/accepts-missing-right",
        "After GROUP_AUTHORIZATION_FAILED (30) the client stops, or tries again slowly.",
        "KIP-11",
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
)
refuses_for_good(
    "The session timeout is out of the broker's bounds.",
    Check(
        "joining/accepts-refused-timeout",
        "After INVALID_SESSION_TIMEOUT (26) the client stops, or tries again slowly.",
        "[joining/order-of-checks]",
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT,
    (CLASSIC,),
)


@scenario(
    Check(
        "joining/keeps-id-after-lost-answer",
        "When the response to JoinGroup is lost the client joins again with the id that it has.",
        "KIP-394; [joining/rejoin]",
        ("version:JoinGroup>=4",),
    )
)
async def lost_join(run: Run) -> None:
    """The response to the second JoinGroup is lost."""
    rule = run.rule(CloseAfter(), "JoinGroup", skip=1)
    await run.start()
    lost = await run.hit(rule, "joined with the id that it was given", Judgement.BREAKS)
    old_id = lost.request.member_id
    again = await remove_ghost(run, old_id, lost.place)
    run.check(
        run.name,
        again.request.member_id == old_id,
        f"it joins as '{again.request.member_id}', so the group waits for {old_id} in vain",
        Judgement.DIFFERS,
    )
    await run.stable()


@scenario(
    Check(
        "joining/waits-for-others",
        "The client waits 12 s for the response to JoinGroup while others have not joined yet.",
        "KIP-62; [joining/rebalance-timeout]",
    )
)
async def slow_rebalance(run: Run) -> None:
    """Another member takes 12 s to join again."""
    await _waits_for_others(run, _SLOW_REBALANCE_S)


@scenario(
    Check(
        "joining/waits-long-for-others",
        "The client waits 40 s for the response to JoinGroup while others have not joined yet.",
        "KIP-62; [joining/rebalance-timeout]",
    ),
    is_long=True,
)
async def very_slow_rebalance(run: Run) -> None:
    """Another member takes 40 s to join again."""
    rebalance_ms = run.profile.rebalance_timeout_ms
    if rebalance_ms < 1000 * _VERY_SLOW_REBALANCE_S:
        run.skip(run.name, f"the client's rebalance timeout is {rebalance_ms} ms")
        return
    await _waits_for_others(run, _VERY_SLOW_REBALANCE_S)


async def _waits_for_others(run: Run, seconds: float) -> None:
    other = run.member(protocols=run.profile.protocols)
    await other.join()
    await other.sync({other.member_id: run.partitions()})
    await run.start()
    join = await run.reached(
        lambda: next((each for each in run.joins() if not each.error and _waits(each)), None),
        "joined the group",
        30.0,
    )
    await run.sleep(seconds)
    closed = [each for each in run.talk.of_kind("closed", join.place) if _is_of(each, join)]
    again = run.joins(join.place)
    run.check(
        run.name,
        not closed and not again,
        "it closed the connection" if closed else "it sent JoinGroup again",
    )


def _waits(join: ClientExchange) -> bool:
    """Whether a JoinGroup is one that waits for the others: not the one without an id."""
    return bool(join.request.member_id) or join.version < 4


def _is_of(remark: object, exchange: ClientExchange) -> bool:
    return getattr(remark, "connection", 0) == exchange.connection


# --- SyncGroup ------------------------------------------------------------------------------------


async def _sync_refused(run: Run, error: ErrorCode, *, same_id: bool | None) -> None:
    """Refuse one SyncGroup; the client must join again.

    Args:
        run: the run.
        error: the error.
        same_id: whether it must have the same id (True), an empty one (False), or either (None).
    """
    sync = await refused_once(run, "SyncGroup", error)
    old_id = sync.request.member_id
    if same_id is False:
        await run.broker.expel(run.group, old_id)
    join = await run.joined(sync.place, f"joined again after {error.name}")
    used = join.request.member_id
    if same_id is not None:
        wanted = old_id if same_id else ""
        seen = f"it joins as '{used}', not as '{wanted}'"
        run.check(run.name, used == wanted, seen, Judgement.DIFFERS)
    if used != old_id and same_id is not False:
        await run.broker.expel(run.group, old_id)
    await run.stable()
    run.passes(run.name)


def _refuses_sync(title: str, check: Check, error: ErrorCode, *, same_id: bool | None) -> None:
    """Register the scenario of a SyncGroup that is refused."""
    scenario(check, title=title)(partial(_sync_refused, error=error, same_id=same_id))


_refuses_sync(
    "A rebalance begins before the client's SyncGroup.",
    Check(
        "syncing/rejoins-on-rebalance",
        "After REBALANCE_IN_PROGRESS (27) to SyncGroup the client joins again with its id.",
        "[syncing/order-of-checks]",
    ),
    ErrorCode.REBALANCE_IN_PROGRESS,
    same_id=True,
)
_refuses_sync(
    "The group is in another generation when the client sends SyncGroup.",
    Check(
        "syncing/rejoins-on-illegal-generation",
        "After ILLEGAL_GENERATION (22) to SyncGroup the client joins again.",
        "[syncing/order-of-checks]",
    ),
    ErrorCode.ILLEGAL_GENERATION,
    same_id=None,
)
_refuses_sync(
    "The member was removed before its SyncGroup.",
    Check(
        "syncing/forgets-unknown-id",
        "After UNKNOWN_MEMBER_ID (25) to SyncGroup the client joins with an empty member id.",
        "[syncing/order-of-checks]",
    ),
    ErrorCode.UNKNOWN_MEMBER_ID,
    same_id=False,
)


@scenario(
    Check(
        "syncing/looks-up-on-not-coordinator",
        "After NOT_COORDINATOR (16) to SyncGroup the client looks the coordinator up and goes on.",
        "[coordinator/availability]",
    )
)
async def sync_not_coordinator(run: Run) -> None:
    """The broker is not the coordinator any more when the client sends SyncGroup."""
    sync = await refused_once(run, "SyncGroup", ErrorCode.NOT_COORDINATOR)
    again = await run.reached(
        lambda: run.talk.first("JoinGroup", "SyncGroup", after=sync.place),
        "sent SyncGroup or JoinGroup again",
    )
    if again.request.member_id != sync.request.member_id:
        await run.broker.expel(run.group, sync.request.member_id)
    await run.stable()
    found = run.talk.first("FindCoordinator", after=sync.place)
    run.check(run.name, found, f"it goes on after {error_name(16)} without FindCoordinator")
