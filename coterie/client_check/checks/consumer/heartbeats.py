"""Heartbeats that are refused, with which a member is fenced or goes on; another interval."""

from itertools import pairwise

from coterie.client_check.checks.consumer.alone import LATE_PART, LATE_S, says_nothing
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.membership import CONSUMER
from coterie.client_check.model import Check, Judgement, scenario
from coterie.client_check.run import Run
from coterie.client_check.script import SetFields
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError

_INTERVAL_MS = 3_000
_INTERVALS = 3
# Of the interval that the broker states; a heartbeat that is earlier than that does not keep to it.
_EARLY_PART = 0.8
# What a client may still have under way when it is refused.
_UNDER_WAY_S = 0.3
_WATCHED_S = 5.0


async def _rejoins(run: Run, refused: ClientExchange, rejoins: str, keeps_id: str) -> None:
    """Judge that a client which is no member any more joins again at once, with its id."""
    join = await run.joined(refused.place, "joined the group again", run.heartbeat_limit_s)
    between = [
        each
        for each in run.heartbeats(refused.answered_place)
        if each.place < join.place and each.at_s > refused.answered_s + _UNDER_WAY_S
    ]
    run.check(rejoins, not between, f"{len(between)} heartbeats with its old epoch come first")
    old_id, used = refused.request.member_id, join.request.member_id
    if used != old_id:
        await run.broker.expel(run.group, old_id)
    run.check(keeps_id, used == old_id, f"it was {old_id} and joins as {used}", Judgement.DIFFERS)


@scenario(
    Check(
        "rejoining/after-fenced-epoch",
        "After FENCED_MEMBER_EPOCH (110) the client joins again with epoch 0.",
        "KIP-848; [consumer-groups/member-epochs]",
    ),
    Check(
        "rejoining/keeps-id-when-fenced",
        "A fenced member keeps its member id.",
        "KIP-1082; [consumer-groups/member-epochs]",
    ),
    Check(
        "rejoining/asks-for-committed",
        "A fenced member has lost its partitions: it starts again at the committed offsets.",
        "KIP-848; [consumer-groups/commit]",
    ),
    protocols=(CONSUMER,),
)
async def fenced_epoch(run: Run) -> None:
    """The coordinator says that the client's epoch is over."""
    await run.begin()
    await run.read_more()
    rule = run.rule(AnswerError(ErrorCode.FENCED_MEMBER_EPOCH), run.heartbeat)
    refused = await run.hit(rule, "sent a heartbeat")
    await _rejoins(run, refused, "rejoining/after-fenced-epoch", "rejoining/keeps-id-when-fenced")
    await run.stable(after=refused.place)
    asked = run.talk.first("OffsetFetch", after=refused.answered_place)
    run.check(
        "rejoining/asks-for-committed", asked, "it goes on without OffsetFetch", Judgement.DIFFERS
    )


@scenario(
    Check(
        "rejoining/after-removal",
        "After UNKNOWN_MEMBER_ID (25) to a heartbeat the client joins again with epoch 0.",
        "KIP-848; [consumer-groups/member-epochs]",
    ),
    Check(
        "rejoining/keeps-id-when-removed",
        "A removed member joins again with its member id.",
        "KIP-1082; [consumer-groups/member-epochs]",
    ),
    protocols=(CONSUMER,),
)
async def removed(run: Run) -> None:
    """The client is removed from the group."""
    await run.begin()
    _, member_id = run.identity()
    await run.broker.expel(run.group, member_id)

    def refused() -> ClientExchange | None:
        wanted = ErrorCode.UNKNOWN_MEMBER_ID
        return next((one for one in run.heartbeats() if one.error == wanted), None)

    beat = await run.reached(refused, "received UNKNOWN_MEMBER_ID", run.heartbeat_limit_s)
    await _rejoins(run, beat, "rejoining/after-removal", "rejoining/keeps-id-when-removed")
    await run.stable(after=beat.place)


@scenario(
    Check(
        "rejoining/accepts-lost-group",
        "After GROUP_ID_NOT_FOUND (69) the client stops or joins again, and does not go on.",
        "KIP-848; [consumer-groups/joined-group]",
    ),
    protocols=(CONSUMER,),
)
async def lost_group(run: Run) -> None:
    """The coordinator does not know the group any more."""
    await run.begin()
    rule = run.rule(AnswerError(ErrorCode.GROUP_ID_NOT_FOUND), run.heartbeat)
    refused = await run.hit(rule, "sent a heartbeat")
    await run.sleep(_WATCHED_S)
    later = run.heartbeats(refused.answered_place)
    first = next(iter(later), None)
    epoch = 0 if first is None else first.request.member_epoch
    run.check(run.name, epoch <= 0, f"it goes on with epoch {epoch}")


async def _goes_on(run: Run, error: ErrorCode, goes_on: str, says_all: str | None = None) -> None:
    """Refuse a heartbeat with an error that passes; the client must stay the member it is."""
    await run.begin()
    # So that the client has said everything before.
    await run.until(lambda: run.heartbeats() and says_nothing(run.heartbeats()[-1]))
    rule = run.rule(AnswerError(error), run.heartbeat)
    refused = await run.hit(rule, "sent a heartbeat")
    again = await run.reached(
        lambda: next(iter(run.heartbeats(refused.answered_place)), None),
        "sent another heartbeat",
        run.heartbeat_limit_s,
    )
    wanted = refused.request.member_epoch, refused.request.member_id
    used = again.request.member_epoch, again.request.member_id
    run.check(goes_on, used == wanted, f"it was {wanted} and is {used}", Judgement.DIFFERS)
    if says_all is not None:
        run.check(
            says_all,
            not says_nothing(again),
            "the next heartbeat has id and epoch only",
            Judgement.DIFFERS,
        )


@scenario(
    Check(
        "heartbeats/goes-on-while-loading",
        "After COORDINATOR_LOAD_IN_PROGRESS (14) the client sends its heartbeat again.",
        "KIP-848; [coordinator/availability]",
    ),
    Check(
        "heartbeats/says-everything-after-error",
        "The heartbeat after an error says everything again.",
        "KIP-848; [consumer-groups/heartbeat-order]",
    ),
    protocols=(CONSUMER,),
)
async def loading(run: Run) -> None:
    """The coordinator loads the group when the client sends a heartbeat."""
    await _goes_on(
        run,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        "heartbeats/goes-on-while-loading",
        "heartbeats/says-everything-after-error",
    )


@scenario(
    Check(
        "heartbeats/goes-on-without-right",
        "After TOPIC_AUTHORIZATION_FAILED (29) heartbeats go on.",
        "ConsumerHeartbeatRequestManager of Kafka's consumer; [consumer-groups/order-of-checks]",
    ),
    protocols=(CONSUMER,),
)
async def topic_refused(run: Run) -> None:
    """The client may not see a topic for a moment."""
    await _goes_on(run, ErrorCode.TOPIC_AUTHORIZATION_FAILED, run.name)


@scenario(
    Check(
        "heartbeats/follows-interval",
        "When the broker states another interval the client keeps to it.",
        "KIP-848; [consumer-groups/timers]",
    ),
    protocols=(CONSUMER,),
)
async def other_interval(run: Run) -> None:
    """The broker states another interval."""
    await run.begin()
    run.say(f"the interval is {_INTERVAL_MS} ms now")
    fields = {"heartbeat_interval_ms": _INTERVAL_MS}
    rule = run.rule(SetFields(fields), run.heartbeat, times=None)
    await run.reached(
        lambda: len(rule.hits) > _INTERVALS,
        "sent heartbeats",
        run.heartbeat_limit_s + _INTERVALS * _INTERVAL_MS / 1000,
    )
    interval_s = _INTERVAL_MS / 1000
    gaps = [later.at_s - one.at_s for one, later in pairwise(rule.hits)]
    wrong = [
        each
        for each in gaps
        if not interval_s * _EARLY_PART <= each <= interval_s * (1 + LATE_PART) + LATE_S
    ]
    # The first one may have been under way, or say what has changed.
    run.check(
        run.name,
        len(wrong) <= 1,
        f"{', '.join(f'{each:.1f}' for each in gaps)} s pass between heartbeats, not"
        f" {interval_s:g} s",
        Judgement.DIFFERS,
    )
